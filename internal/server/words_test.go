package server

import (
	"regexp"
	"strings"
	"testing"

	paymentsv1 "chargeonce/api/payments/v1"
)

// Who reads "a unique key per request" mints a new one for the retry, and charges twice.
func TestCase16TheWordsAskForOneKeyPerPurchaseIntent(t *testing.T) {
	t.Parallel()
	perRequest := regexp.MustCompile(`(?i)\b(unique|new|one|fresh|own)\W+(idempotency.?)?(key\W+)?(per|for each|for every)\W+(request|send|call|attempt)`)
	texts := map[string]string{"the OpenAPI document": string(paymentsv1.OpenAPI)}
	for reason, w := range words {
		texts[reason.String()] = strings.Join(w[:], " ")
	}
	for name, text := range texts {
		if found := perRequest.FindString(text); found != "" {
			t.Errorf("%s says: %s", name, found)
		}
	}
	for _, name := range []string{"the OpenAPI document", "IDEMPOTENCY_KEY_MISSING"} {
		if !regexp.MustCompile(`[Oo]ne key per \*?purchase intent`).MatchString(texts[name]) {
			t.Errorf("%s does not say: one key per purchase intent", name)
		}
	}
	if !perRequest.MatchString("Use a unique key per request.") {
		t.Error("the test does not see what it looks for")
	}
}
