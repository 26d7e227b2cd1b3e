package main

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// checkPolicies: every pod is closed in both directions but for what is listed, every port that is opened is one that somebody listens
// on, and the admin port is open to monitoring alone.
func checkPolicies(f *faults, c *cluster) {
	for name, pod := range c.pods() {
		var closed []networkingv1.PolicyType
		for _, p := range c.policies {
			if selects(f, &p.Spec.PodSelector, *pod) {
				closed = append(closed, p.Spec.PolicyTypes...)
			}
		}
		for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
			if !slices.Contains(closed, direction) {
				f.addf("%s: its %s is open", name, direction)
			}
		}
	}
	for _, p := range c.policies {
		for _, rule := range p.Spec.Ingress {
			checkIngress(f, c, p.Name, rule)
		}
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 || len(rule.Ports) == 0 {
				f.addf("NetworkPolicy %s: opens every address or every port", p.Name)
			}
		}
	}
}

func checkIngress(f *faults, c *cluster, policy string, rule networkingv1.NetworkPolicyIngressRule) {
	if len(rule.Ports) == 0 {
		f.addf("NetworkPolicy %s: opens every port", policy)
	}
	for _, port := range rule.Ports {
		if port.Port == nil || !servedByAServer(c, *port.Port) {
			f.addf("NetworkPolicy %s: opens port %v, which no server has", policy, port.Port)
			continue
		}
		if port.Port.StrVal == "admin" && !fromMonitoring(rule.From) {
			f.addf("NetworkPolicy %s: opens the admin port to others than monitoring", policy)
		}
	}
}

func servedByAServer(c *cluster, port intstr.IntOrString) bool {
	for _, d := range c.deployments {
		for _, container := range d.Spec.Template.Spec.Containers {
			if port.Type == intstr.String && hasPort(container, port) { // by name, so that the rule above can tell which
				return true
			}
		}
	}
	return false
}

func fromMonitoring(from []networkingv1.NetworkPolicyPeer) bool {
	return len(from) > 0 && !slices.ContainsFunc(from, func(p networkingv1.NetworkPolicyPeer) bool {
		return p.NamespaceSelector == nil || p.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "monitoring"
	})
}
