package gatewaysim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	gatewaysim "chargeonce/gateway-sim"
)

func TestBadFaultsAreRefusedByField(t *testing.T) {
	t.Parallel()
	psp, c := start(t, gatewaysim.Config{})
	for body, field := range map[string]string{
		`{"sed":1}`:                                               "sed",
		`{"seed":-1}`:                                             "seed",
		`{"latency":"80ms"}`:                                      "latency",
		`{"latency":"fixed soon"}`:                                "latency",
		`{"latency":"fixed -1s"}`:                                 "latency",
		`{"latency":"fixed 2h"}`:                                  "latency",
		`{"latency":"uniform 2s 1s"}`:                             "latency",
		`{"latency":"lognormal p50 1s p99.9 80ms"}`:               "latency",
		`{"latency":"lognormal p50 0s p99.9 80ms"}`:               "latency",
		`{"rules":[{}]}`:                                          "rules[0].fault",
		`{"rules":[{"fault":"hang"},{"fault":"burn"}]}`:           "rules[1].fault",
		`{"rules":[{"fault":"hang","rate":1.5}]}`:                 "rules[0].rate",
		`{"rules":[{"fault":"hang","rate":-0.1}]}`:                "rules[0].rate",
		`{"rules":[{"fault":"hang","rate":"0.1"}]}`:               "rules.rate",
		`{"rules":[{"fault":"hang","skip":-1}]}`:                  "rules[0].skip",
		`{"rules":[{"fault":"hang","count":-1}]}`:                 "rules[0].count",
		`{"rules":[{"fault":"hang","after":"soon"}]}`:             "rules[0].after",
		`{"rules":[{"fault":"hang","for":"-1s"}]}`:                "rules[0].for",
		`{"rules":[{"fault":"hang","for":"100000h"}]}`:            "rules[0].for",
		`{"rules":[{"fault":"hang","status":503}]}`:               "rules[0].status",
		`{"rules":[{"fault":"hang","how":"cut_body"}]}`:           "rules[0].how",
		`{"rules":[{"fault":"hang","retry_after":"1s"}]}`:         "rules[0].retry_after",
		`{"rules":[{"fault":"hang","latency":"fixed 1s"}]}`:       "rules[0].latency",
		`{"rules":[{"fault":"latency"}]}`:                         "rules[0].latency",
		`{"rules":[{"fault":"error","status":200}]}`:              "rules[0].status",
		`{"rules":[{"fault":"error","retry_after":"soon"}]}`:      "rules[0].retry_after",
		`{"rules":[{"fault":"error","retry_after_date":true}]}`:   "rules[0].retry_after_date",
		`{"rules":[{"fault":"lose_answer","how":"burn"}]}`:        "rules[0].how",
		`{"rules":[{"fault":"lose_answer","status":500}]}`:        "rules[0].status",
		`{"rules":[{"fault":"hang","match":{"path":"charges"}}]}`: "rules[0].match.path",
		`{"rules":[{"fault":"hang","match":{"exact":true}}]}`:     "rules[0].match.exact",
		`{"rules":[{"fault":"hang","match":{"order":"o"}}]}`:      "order",
		`{"webhooks":{"repeat":-1}}`:                              "webhooks.repeat",
		`{"webhooks":{"repeat":101}}`:                             "webhooks.repeat",
		`{"webhooks":{"drop_rate":2}}`:                            "webhooks.drop_rate",
		`{"webhooks":{"bad_signature_rate":2}}`:                   "webhooks.bad_signature_rate",
		`{"webhooks":{"delay":"soon"}}`:                           "webhooks.delay",
		`{"webhooks":{"shuffle":"-1s"}}`:                          "webhooks.shuffle",
		`{"webhooks":{"sign_with":1}}`:                            "webhooks.sign_with",
		`{} {}`:                                                   "(body)",
		`nothing`:                                                 "(body)",
	} {
		got := errorOf(t, c.do(t.Context(), "PUT", "/admin/faults", body).want(t, 400))
		if got.Type != "invalid_request" || got.Code != field {
			t.Errorf("%s: refused as %s %q, want invalid_request %q", body, got.Type, got.Code, field)
		}
	}
	if diff := cmp.Diff(gatewaysim.Faults{}, psp.Faults(), cmp.Comparer(func(a, b gatewaysim.Latency) bool { return a == b })); diff != "" {
		t.Errorf("refused faults are in force:\n%s", diff)
	}
}

func TestFaultsCanBeReadBackAndCleared(t *testing.T) {
	t.Parallel()
	_, c := start(t, gatewaysim.Config{})
	const all = `{"seed":3,"latency":"lognormal p50 80ms p99.9 1.2s","rules":[` +
		`{"fault":"error","match":{"method":"POST","path":"/charges","exact":true,"order_id":"o"},"rate":0.25,"skip":1,"count":2,"after":"2s","for":"4s","status":429,"retry_after":"1s"},` +
		`{"fault":"lose_answer","how":"proxy_page","status":403},` +
		`{"fault":"latency","latency":"uniform 10ms 20ms"}],` +
		`"webhooks":{"early":true,"delay":"1s","shuffle":"500ms","repeat":3,"drop_rate":0.05,"bad_signature_rate":0.5,"sign_with":0}}`
	for _, r := range []response{c.do(t.Context(), "PUT", "/admin/faults", all), c.get("/admin/faults")} {
		if diff := cmp.Diff(all, r.want(t, 200).body); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, r := range []response{c.do(t.Context(), "DELETE", "/admin/faults", ""), c.get("/admin/faults")} {
		if got := r.want(t, 200).body; got != "{}" {
			t.Errorf("cleared faults read %s", got)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/f.db"
	for name, cfg := range map[string]gatewaysim.Config{
		"no path":      {APIKey: "k"},
		"no API key":   {Path: path},
		"bad URL":      {Path: path, APIKey: "k", WebhookURL: "localhost"},
		"bad secret":   {Path: path, APIKey: "k", WebhookSecrets: []string{"secret"}},
		"short secret": {Path: path, APIKey: "k", WebhookSecrets: []string{"whsec_c2hvcnQ="}},
		"bad speed-up": {Path: path, APIKey: "k", WebhookSpeedup: -1},
		"bad latency":  {Path: path, APIKey: "k", Latency: gatewaysim.Fixed(-time.Second)},
		"bad faults":   {Path: path, APIKey: "k", Faults: &gatewaysim.Faults{Rules: []gatewaysim.Rule{{}}}},
	} {
		sim, err := gatewaysim.Open(cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			err = sim.Close()
		}
		var field *gatewaysim.FieldError
		if name == "bad faults" && !errors.As(err, &field) {
			t.Errorf("%s: %v is no FieldError", name, err)
		}
	}
}
