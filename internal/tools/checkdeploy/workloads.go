package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mysqlConnections is MySQL's default of max_connections.
const mysqlConnections = 151

// otherConnections are what one pass of reconciliation (8) and one migration (4) may open beside the servers.
const otherConnections = 12

// checkDeployment: the servers are probed, spread, budgeted and scaled, and every port that somebody names is one of theirs.
func checkDeployment(f *faults, c *cluster, d appsv1.Deployment) {
	pod := d.Spec.Template
	if !selects(f, d.Spec.Selector, pod) {
		f.addf("Deployment %s: does not select its own pods", d.Name)
	}
	for _, container := range pod.Spec.Containers {
		for what, probe := range map[string]*corev1.Probe{
			"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe,
		} {
			if probe == nil || probe.HTTPGet == nil || !hasPort(container, probe.HTTPGet.Port) {
				f.addf("Deployment %s: container %s: no %s probe, or of a port that it has not", d.Name, container.Name, what)
			}
		}
		checkPorts(f, d.Name, container)
		if port := pod.Annotations["prometheus.io/port"]; !hasPort(container, intstr.Parse(port)) {
			f.addf("Deployment %s: is scraped on port %q, which it has not", d.Name, port)
		}
	}
	for _, s := range pod.Spec.TopologySpreadConstraints {
		if !selects(f, s.LabelSelector, pod) {
			f.addf("Deployment %s: is spread over %s by other pods", d.Name, s.TopologyKey)
		}
	}
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		f.addf("Deployment %s: its pods may all be on one node", d.Name)
	}
	budgets := 0
	for _, b := range c.budgets {
		if selects(f, b.Spec.Selector, pod) {
			budgets++
		}
	}
	if budgets != 1 {
		f.addf("Deployment %s: has %d disruption budgets; want one", d.Name, budgets)
	}
	checkServices(f, c, d)
	checkScaling(f, c, d)
}

// checkPorts: the container's ports are those that its flags listen on.
func checkPorts(f *faults, name string, container corev1.Container) {
	listens := regexp.MustCompile(`^--([a-z]+)-listen=:(\d+)$`)
	want := map[string]string{}
	for _, arg := range container.Args {
		if m := listens.FindStringSubmatch(arg); m != nil {
			want[m[1]] = m[2]
		}
	}
	got := map[string]string{}
	for _, p := range container.Ports {
		got[p.Name] = strconv.Itoa(int(p.ContainerPort))
	}
	if !maps.Equal(got, want) {
		f.addf("Deployment %s: container %s listens on %v and says %v", name, container.Name, want, got)
	}
}

func hasPort(container corev1.Container, port intstr.IntOrString) bool {
	return slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
		return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}

// checkServices: every Service leads to the servers, and to a port of theirs; none to the admin port.
func checkServices(f *faults, c *cluster, d appsv1.Deployment) {
	for _, s := range c.services {
		if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) || len(s.Spec.Selector) == 0 {
			f.addf("Service %s: leads to no pod of %s", s.Name, d.Name)
		}
		for _, p := range s.Spec.Ports {
			if p.TargetPort.StrVal == "admin" || !hasPort(d.Spec.Template.Spec.Containers[0], p.TargetPort) {
				f.addf("Service %s: leads to port %s", s.Name, p.TargetPort.String())
			}
		}
		if s.Spec.Type != "" && s.Spec.Type != corev1.ServiceTypeClusterIP {
			f.addf("Service %s: is reached from outside the cluster without a gateway", s.Name)
		}
	}
}

// checkScaling: the database has connections for as many servers as there may be.
func checkScaling(f *faults, c *cluster, d appsv1.Deployment) {
	for _, a := range c.autoscalers {
		if t := a.Spec.ScaleTargetRef; t.Kind != "Deployment" || t.Name != d.Name {
			f.addf("HorizontalPodAutoscaler %s: scales %s %s", a.Name, t.Kind, t.Name)
		}
		if d.Spec.Replicas != nil {
			f.addf("Deployment %s: says how many there are, which the autoscaler does", d.Name)
		}
		most, err := flagNumber(d.Spec.Template.Spec.Containers[0].Args, "mysql-max-open")
		if err != nil {
			f.addf("Deployment %s: %w", d.Name, err)
			continue
		}
		surge := d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue()
		if n := (int(a.Spec.MaxReplicas)+surge)*most + otherConnections; n > mysqlConnections {
			f.addf("HorizontalPodAutoscaler %s: up to %d connections to MySQL, which takes %d", a.Name, n, mysqlConnections)
		}
	}
}

func flagNumber(args []string, flag string) (int, error) {
	for _, arg := range args {
		if m := regexp.MustCompile(`^--` + flag + `=(\d+)$`).FindStringSubmatch(arg); m != nil {
			return strconv.Atoi(m[1])
		}
	}
	return 0, fmt.Errorf("no --%s", flag)
}

// checkJobs: every Job ends, and none is run twice at once or for ever.
func checkJobs(f *faults, c *cluster) {
	check := func(name string, spec batchv1.JobSpec) {
		if spec.ActiveDeadlineSeconds == nil || spec.BackoffLimit == nil || spec.TTLSecondsAfterFinished == nil {
			f.addf("%s: wants activeDeadlineSeconds, backoffLimit and ttlSecondsAfterFinished", name)
		}
		if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			f.addf("%s: wants restartPolicy Never", name)
		}
	}
	for _, j := range c.jobs {
		check("Job "+j.Name, j.Spec)
	}
	for _, j := range c.cronJobs {
		check("CronJob "+j.Name, j.Spec.JobTemplate.Spec)
		if j.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || j.Spec.StartingDeadlineSeconds == nil {
			f.addf("CronJob %s: wants concurrencyPolicy Forbid and startingDeadlineSeconds", j.Name)
		}
	}
}

// selects reports whether a selector selects a pod. One that is missing selects none here.
func selects(f *faults, selector *metav1.LabelSelector, pod corev1.PodTemplateSpec) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		f.addf("selector: %w", err)
		return false
	}
	return s.Matches(labels.Set(pod.Labels))
}
