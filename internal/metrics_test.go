package internal_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/server"
	"chargeonce/internal/telemetry"
	"chargeonce/reconcile"
	"chargeonce/webhook"
)

// instruments notes by their Prometheus names all the instruments that are made: it is a provider that measures nothing.
type instruments struct {
	noop.MeterProvider
	t     *testing.T
	kinds map[string]string
}

func (i *instruments) Meter(string, ...metric.MeterOption) metric.Meter { return meter{all: i} }

func (i *instruments) note(name, unit, kind string, of otlptranslator.MetricType) {
	i.t.Helper()
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	full, err := namer.Build(otlptranslator.Metric{Name: name, Unit: unit, Type: of})
	if err != nil {
		i.t.Errorf("%s: %v", name, err)
	}
	i.kinds[full] = kind
}

type meter struct {
	noop.Meter
	all *instruments
}

func (m meter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.all.note(name, metric.NewInt64CounterConfig(o...).Unit(), "counter", otlptranslator.MetricTypeMonotonicCounter)
	return m.Meter.Int64Counter(name, o...)
}

func (m meter) Int64Gauge(name string, o ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	m.all.note(name, metric.NewInt64GaugeConfig(o...).Unit(), "gauge", otlptranslator.MetricTypeGauge)
	return m.Meter.Int64Gauge(name, o...)
}

func (m meter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.all.note(name, metric.NewFloat64HistogramConfig(o...).Unit(), "histogram", otlptranslator.MetricTypeHistogram)
	return m.Meter.Float64Histogram(name, o...)
}

func (m meter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.all.note(name, metric.NewInt64ObservableGaugeConfig(o...).Unit(), "gauge", otlptranslator.MetricTypeGauge)
	return m.Meter.Int64ObservableGauge(name, o...)
}

func (m meter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.all.note(name, metric.NewFloat64ObservableGaugeConfig(o...).Unit(), "gauge", otlptranslator.MetricTypeGauge)
	return m.Meter.Float64ObservableGauge(name, o...)
}

func (m meter) Int64ObservableUpDownCounter(name string, o ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	m.all.note(name, metric.NewInt64ObservableUpDownCounterConfig(o...).Unit(), "gauge", otlptranslator.MetricTypeNonMonotonicCounter)
	return m.Meter.Int64ObservableUpDownCounter(name, o...)
}

func (m meter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.all.note(name, metric.NewInt64ObservableCounterConfig(o...).Unit(), "counter", otlptranslator.MetricTypeMonotonicCounter)
	return m.Meter.Int64ObservableCounter(name, o...)
}

func (m meter) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	m.all.note(name, metric.NewFloat64ObservableCounterConfig(o...).Unit(), "counter", otlptranslator.MetricTypeMonotonicCounter)
	return m.Meter.Float64ObservableCounter(name, o...)
}

// documentedMetric is a row of the document's tables: name and type.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram)\\b")

// The document that dashboards, alerts and people read is held against the instruments that the product makes, both ways.
func TestTheMetricsThatThereAreAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	all := &instruments{t: t, kinds: map[string]string{}}
	otel.SetMeterProvider(all) // those too that were made before
	makeAll(t)

	text, err := os.ReadFile("../deploy/prometheus/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range documentedMetric.FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2]
	}
	for _, row := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(row, "| `") && !documentedMetric.MatchString(row) {
			t.Errorf("a row that is no metric's: %s", row)
		}
	}
	if diff := cmp.Diff(documented, all.kinds); diff != "" {
		t.Errorf("documented (-), made (+):\n%s", diff)
	}
}

// makeAll makes what serve and reconcile are made of. Nothing of it connects to anything.
func makeAll(t *testing.T) {
	t.Helper()
	db, err := mysql.Open("u:p@tcp(127.0.0.1:1)/d", mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.DiscardHandler)
	provider, err := psp.New(psp.Config{BaseURL: "http://127.0.0.1:1", APIKey: "k", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	flow := payment.NewFlow(db, provider, server.Renderer{}, payment.Timing{}, log)
	events, err := webhook.New(webhook.Config{DB: db, Flow: flow, Logger: log,
		Secrets: []telemetry.Secret{"whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYQ=="}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.New(server.Config{DB: db, Flow: flow, Log: log, Webhook: events}); err != nil {
		t.Fatal(err)
	}
	if _, err := reconcile.New(reconcile.Config{DB: db, PSP: provider, Renderer: server.Renderer{}, Inbox: events.Inbox(), Logger: log}); err != nil {
		t.Fatal(err)
	}
	if _, err := reconcile.Watch(otel.Meter("test"), db); err != nil {
		t.Fatal(err)
	}
	if _, err := mysql.Observe(otel.Meter("test"), db, "d"); err != nil {
		t.Fatal(err)
	}
}
