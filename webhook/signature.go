package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chargeonce/internal/telemetry"
)

// The length of a secret, in bytes, by the Standard Webhooks specification ("Signature scheme"). The library takes any, the
// empty one too, whose signatures everybody can make.
const (
	minSecret = 24
	maxSecret = 64
)

// refusal says why a request is not believed. It stands in logs and metrics and is never sent: the sender learns nothing.
type refusal string

const (
	badHeaders   refusal = "headers"
	tooOld       refusal = "too_old"
	tooNew       refusal = "too_new"
	badSignature refusal = "signature"
)

// verifier checks the Standard Webhooks headers of a request. The library does the signature; the time is checked here,
// since the library reads the wall clock by itself and its tolerance cannot be set.
type verifier struct {
	secrets   []*standardwebhooks.Webhook
	tolerance time.Duration
	now       func() time.Time
}

func newVerifier(secrets []telemetry.Secret, tolerance time.Duration, now func() time.Time) (*verifier, error) {
	if len(secrets) == 0 {
		return nil, errors.New("webhook: no signing secret")
	}
	v := &verifier{tolerance: tolerance, now: now}
	for i, s := range secrets {
		wh, err := signer(s)
		if err != nil {
			return nil, fmt.Errorf("webhook: signing secret %d: %w", i+1, err)
		}
		v.secrets = append(v.secrets, wh)
	}
	return v, nil
}

func signer(s telemetry.Secret) (*standardwebhooks.Webhook, error) {
	encoded, ok := strings.CutPrefix(s.Reveal(), "whsec_")
	if !ok {
		return nil, errors.New("does not begin with whsec_")
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("is not base64 after whsec_") // the decoder's error would tell a position in the secret
	}
	if len(raw) < minSecret || len(raw) > maxSecret {
		return nil, fmt.Errorf("has %d bytes, not %d to %d", len(raw), minSecret, maxSecret)
	}
	return standardwebhooks.NewWebhookRaw(raw)
}

// stamp is what the headers of a believed request say.
type stamp struct {
	id string
	// skew is our time minus the sender's: positive when the message is old.
	skew time.Duration
}

// verify believes a body when one signature of it by one of the secrets holds, made within the tolerance before or after now.
// Each header must be there once: a proxy that doubles one leaves open which was signed.
func (v *verifier) verify(h http.Header, body []byte) (stamp, refusal) {
	id, ok1 := single(h, standardwebhooks.HeaderWebhookID)
	sent, ok2 := single(h, standardwebhooks.HeaderWebhookTimestamp)
	_, ok3 := single(h, standardwebhooks.HeaderWebhookSignature)
	if !ok1 || !ok2 || !ok3 {
		return stamp{}, badHeaders
	}
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return stamp{}, badHeaders
	}
	skew := v.now().Sub(time.Unix(seconds, 0)) // saturates, so that an absurd time is out of tolerance
	switch {
	case skew > v.tolerance:
		return stamp{}, tooOld
	case skew < -v.tolerance:
		return stamp{}, tooNew
	}
	for _, s := range v.secrets {
		if s.VerifyIgnoringTimestamp(body, h) == nil {
			return stamp{id: id, skew: skew}, ""
		}
	}
	return stamp{}, badSignature
}

func single(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}
