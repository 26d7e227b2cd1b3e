package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkPod: a pod may do what it needs and no more (the "restricted" Pod Security Standard, and a read-only root), and may not take
// a node's memory.
func checkPod(f *faults, name string, pod *corev1.PodTemplateSpec) {
	spec := pod.Spec
	sec := spec.SecurityContext
	switch {
	case sec == nil || !is(sec.RunAsNonRoot, true) || sec.RunAsUser == nil || *sec.RunAsUser == 0:
		f.addf("%s: may run as root", name)
	case sec.SeccompProfile == nil || sec.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		f.addf("%s: no seccomp profile", name)
	}
	if !is(spec.AutomountServiceAccountToken, false) || spec.ServiceAccountName == "" {
		f.addf("%s: gets a token for the Kubernetes API", name)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		f.addf("%s: shares the node's namespaces", name)
	}
	for _, c := range spec.Containers {
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			f.addf("%s: container %s: wants requests of CPU and memory, and a limit of memory", name, c.Name)
		}
		s := c.SecurityContext
		if s == nil || !is(s.AllowPrivilegeEscalation, false) || !is(s.ReadOnlyRootFilesystem, true) || s.Capabilities == nil ||
			!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			f.addf("%s: container %s: wants no privilege escalation, a read-only root and no capabilities", name, c.Name)
		}
	}
}

// checkRefs: what a pod refers to is there: account, configuration, keys of the Secret, volumes.
func checkRefs(f *faults, c *cluster, name string, pod *corev1.PodTemplateSpec) {
	spec := pod.Spec
	if !slices.ContainsFunc(c.accounts, func(a corev1.ServiceAccount) bool { return a.Name == spec.ServiceAccountName }) {
		f.addf("%s: there is no ServiceAccount %s", name, spec.ServiceAccountName)
	}
	var volumes []string
	for _, v := range spec.Volumes {
		volumes = append(volumes, v.Name)
		if v.Secret == nil {
			continue
		}
		secret := slices.IndexFunc(c.secrets, func(s corev1.Secret) bool { return s.Name == v.Secret.SecretName })
		if secret < 0 {
			f.addf("%s: there is no Secret %s", name, v.Secret.SecretName)
			continue
		}
		if len(v.Secret.Items) == 0 {
			f.addf("%s: gets every secret, also those that it does not need", name)
		}
		for _, item := range v.Secret.Items {
			if _, ok := c.secrets[secret].StringData[item.Key]; !ok {
				f.addf("%s: the Secret has no key %s", name, item.Key)
			}
		}
	}
	for _, container := range spec.Containers {
		for _, m := range container.VolumeMounts {
			if !slices.Contains(volumes, m.Name) {
				f.addf("%s: there is no volume %s", name, m.Name)
			}
		}
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				f.addf("%s: has secrets in its environment", name)
			}
			if from.ConfigMapRef != nil && !slices.ContainsFunc(c.configs, func(m corev1.ConfigMap) bool { return m.Name == from.ConfigMapRef.Name }) {
				f.addf("%s: there is no ConfigMap %s", name, from.ConfigMapRef.Name)
			}
		}
	}
}

// is reports whether a pointer is set, and to what is wanted.
func is(set *bool, want bool) bool { return set != nil && *set == want }
