package main

import (
	"context"
	"path/filepath"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
)

// checkCollector validates the collector's configuration as `otelcol validate` does, with the components that it uses. They are of
// the version that docker-compose.yml runs, or this check would be of another program.
func checkCollector(ctx context.Context, root string) error {
	project, err := loadCompose(ctx, root)
	if err != nil {
		return err
	}
	version, err := moduleVersion(root, "go.opentelemetry.io/collector/otelcol")
	if err != nil {
		return err
	}
	var f faults
	if runs := project.Services["otel-collector"].Image; runs != "otel/opentelemetry-collector:"+version {
		f.addf("docker-compose.yml runs %s, checked is version %s: bring both to one", runs, version)
	}
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: collectorParts,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"file:" + filepath.Join(root, "deploy", "otel", "collector.yml")},
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	})
	if err != nil {
		return err
	}
	if err := col.DryRun(ctx); err != nil {
		f.addf("%w", err)
	}
	return f.err()
}

// ownTelemetry is what the file may say of the collector's own logs and metrics: a small part of what there is. The collector's type for
// it would bring the libraries of three clouds.
type ownTelemetry struct {
	Logs struct {
		Encoding string `mapstructure:"encoding"`
	} `mapstructure:"logs"`
	Metrics struct {
		Readers []struct {
			Pull struct {
				Exporter struct {
					Prometheus struct {
						Host string `mapstructure:"host"`
						Port int    `mapstructure:"port"`
					} `mapstructure:"prometheus"`
				} `mapstructure:"exporter"`
			} `mapstructure:"pull"`
		} `mapstructure:"readers"`
	} `mapstructure:"metrics"`
}

func collectorParts() (otelcol.Factories, error) {
	factories := otelcol.Factories{Telemetry: telemetry.NewFactory(func() component.Config { return &ownTelemetry{} })}
	var err error
	if factories.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return factories, err
	}
	if factories.Processors, err = otelcol.MakeFactoryMap[processor.Factory](memorylimiterprocessor.NewFactory(), batchprocessor.NewFactory()); err != nil {
		return factories, err
	}
	factories.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory())
	return factories, err
}
