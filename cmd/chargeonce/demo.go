package main

import (
	"log/slog"

	"chargeonce/internal/telemetry"
)

// demoValue is a secret that stands in this repository, so that everybody knows it.
type demoValue struct {
	setting string // the environment's name for it
	value   string
	what    string
	danger  string
}

// The demo's secrets: the defaults of docker-compose.yml and of the simulator.
var (
	demoPassword   = demoValue{"CHARGEONCE_MYSQL_PASSWORD", "chargeonce-demo", "MYSQL PASSWORD", "everybody knows it"}
	demoPSPKey     = demoValue{"CHARGEONCE_PSP_API_KEY", "psp_demo_key", "PSP API KEY", "everybody knows it"}
	demoWebhookKey = demoValue{"CHARGEONCE_WEBHOOK_SECRETS", "whsec_Zm9yIGRlbW9uc3RyYXRpb25zIG9ubHksIG5vIHNlY3JldA==", "WEBHOOK SECRET",
		"everybody can sign with it"}
	demoPageKey = demoValue{"CHARGEONCE_PAGE_TOKEN_KEY", "chargeonce-demo-page-token-key!!", "PAGE TOKEN KEY", "everybody can make page tokens"}

	demoValues = []demoValue{demoPassword, demoPSPKey, demoWebhookKey, demoPageKey}
)

// is reports whether the secret is the demo's.
func (d demoValue) is(s telemetry.Secret) bool { return s.Reveal() == d.value }

// warn says loudly that the secret is the demo's, if it is.
func (d demoValue) warn(log *slog.Logger, s telemetry.Secret) {
	if d.is(s) {
		log.Warn("THE DEMO " + d.what + " IS IN USE: " + d.danger + ". Set " + d.setting + ".")
	}
}
