package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// cluster is what `kubectl apply -k deploy/kubernetes` would send.
type cluster struct {
	accounts    []corev1.ServiceAccount
	configs     []corev1.ConfigMap
	services    []corev1.Service
	deployments []appsv1.Deployment
	jobs        []batchv1.Job
	cronJobs    []batchv1.CronJob
	budgets     []policyv1.PodDisruptionBudget
	autoscalers []autoscalingv2.HorizontalPodAutoscaler
	policies    []networkingv1.NetworkPolicy
	secrets     []corev1.Secret // only from the example: none is in what is applied
}

// pods are the pod templates of all workloads, by the workload's kind and name.
func (c *cluster) pods() map[string]*corev1.PodTemplateSpec {
	all := map[string]*corev1.PodTemplateSpec{}
	for i := range c.deployments {
		all["Deployment "+c.deployments[i].Name] = &c.deployments[i].Spec.Template
	}
	for i := range c.jobs {
		all["Job "+c.jobs[i].Name] = &c.jobs[i].Spec.Template
	}
	for i := range c.cronJobs {
		all["CronJob "+c.cronJobs[i].Name] = &c.cronJobs[i].Spec.JobTemplate.Spec.Template
	}
	return all
}

// add decodes one manifest into the API's own type of its kind. An unknown field, or one that is there twice, is an error.
func (c *cluster) add(manifest []byte) error {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(manifest, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 ServiceAccount":
		return decode(manifest, &c.accounts)
	case "v1 ConfigMap":
		return decode(manifest, &c.configs)
	case "v1 Service":
		return decode(manifest, &c.services)
	case "v1 Secret":
		return decode(manifest, &c.secrets)
	case "apps/v1 Deployment":
		return decode(manifest, &c.deployments)
	case "batch/v1 Job":
		return decode(manifest, &c.jobs)
	case "batch/v1 CronJob":
		return decode(manifest, &c.cronJobs)
	case "policy/v1 PodDisruptionBudget":
		return decode(manifest, &c.budgets)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return decode(manifest, &c.autoscalers)
	case "networking.k8s.io/v1 NetworkPolicy":
		return decode(manifest, &c.policies)
	}
	return fmt.Errorf("%s %s: no type is known for it here", kind.APIVersion, kind.Kind)
}

func decode[T any](manifest []byte, into *[]T) error {
	var object T
	if err := yaml.UnmarshalStrict(manifest, &object); err != nil {
		return err
	}
	*into = append(*into, object)
	return nil
}

// loadCluster renders deploy/kubernetes and decodes it, each file as it is written and all of it as it would be applied: kustomize
// drops some of what is wrong in a file.
func loadCluster(root string) (*cluster, error) {
	dir := filepath.Join(root, "deploy", "kubernetes")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var written, applied cluster
	for _, path := range files {
		if filepath.Base(path) == "kustomization.yaml" {
			continue // read strictly by kustomize itself
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := addAll(&written, text); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	text, err := rendered.AsYaml()
	if err != nil {
		return nil, err
	}
	if err := addAll(&applied, text); err != nil {
		return nil, fmt.Errorf("rendered: %w", err)
	}
	if len(applied.secrets) > 0 {
		return nil, fmt.Errorf("a Secret is among what is applied; it does not belong into a repository")
	}
	if w, a := len(written.pods()), len(applied.pods()); w != a {
		return nil, fmt.Errorf("%d workloads are written, %d are listed in kustomization.yaml", w, a)
	}
	applied.secrets = written.secrets
	return &applied, nil
}

func addAll(c *cluster, text []byte) error {
	for _, manifest := range strings.Split(string(text), "\n---\n") {
		if len(bytes.TrimSpace([]byte(manifest))) == 0 {
			continue
		}
		if err := c.add([]byte(manifest)); err != nil {
			return err
		}
	}
	return nil
}

func checkKubernetes(_ context.Context, root string) error {
	c, err := loadCluster(root)
	if err != nil {
		return err
	}
	var f faults
	images := map[string]bool{}
	for name, pod := range c.pods() {
		checkPod(&f, name, pod)
		checkRefs(&f, c, name, pod)
		for _, container := range pod.Spec.Containers {
			images[container.Image] = true
		}
	}
	if len(images) != 1 {
		f.addf("the workloads run different images: %v", images)
	}
	for image := range images {
		if !pinned(image) {
			f.addf("image %s has no version", image)
		}
	}
	for _, d := range c.deployments {
		checkDeployment(&f, c, d)
	}
	checkJobs(&f, c)
	checkPolicies(&f, c)
	return f.err()
}
