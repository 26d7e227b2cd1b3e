package webhook

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
	"chargeonce/internal/telemetry/metrictest"
)

// applies is a flow to which every charge but those of amount 13 is news.
type applies struct{}

func (applies) Apply(_ context.Context, _ mysql.Querier, c psp.Charge) (payment.Applied, error) {
	if c.Amount == 13 {
		return payment.Applied{}, payment.ErrNotOurs
	}
	return payment.Applied{Changed: true}, nil
}

// Deliveries are counted by what became of them; the skew is measured of those alone that were believed; what waits and what is
// dead can be seen.
func TestMetricsTellOutcomesSkewAndBacklog(t *testing.T) {
	t.Parallel()
	t.Run("case 19: the skew is measured", func(t *testing.T) {
		t.Parallel()
		const secret = telemetry.Secret("whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYQ==")
		now := time.Unix(1_796_000_000, 0)
		h, err := New(Config{DB: mysql.NewTestDB(t).DB, Flow: applies{}, Secrets: []telemetry.Secret{secret}, MaxAttempts: 1,
			Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		reader := sdkmetric.NewManualReader()
		if h.metrics, err = newMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), h.inbox); err != nil {
			t.Fatal(err)
		}
		signer, err := standardwebhooks.NewWebhook(secret.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []struct {
			id     string
			age    time.Duration
			amount int
			tamper bool
			want   int
		}{
			{"evt_1", 90 * time.Second, 5, false, 200},
			{"evt_1", 20 * time.Second, 5, false, 200},
			{"evt_1", 0, 6, false, 409},
			{"evt_2", -10 * time.Second, 13, false, 200},
			{"evt_3", 301 * time.Second, 5, false, 401},
			{"evt_3", -301 * time.Second, 5, false, 401},
			{"evt_3", 0, 5, true, 401},
		} {
			body := fmt.Appendf(nil, `{"type":"charge.succeeded","data":{"charge":{"id":"ch_1","amount":%d,"currency":"EUR","status":"succeeded"}}}`, d.amount)
			at := now.Add(-d.age)
			signature, err := signer.Sign(d.id, at, body)
			if err != nil {
				t.Fatal(err)
			}
			if d.tamper {
				body = append(body, ' ')
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
			r.Header.Set("webhook-id", d.id)
			r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
			r.Header.Set("webhook-signature", signature)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != d.want {
				t.Errorf("%+v: %d %s", d, w.Code, w.Body)
			}
		}
		if _, err := h.inbox.Replay(t.Context(), "evt_2"); err != nil { // its last attempt
			t.Fatal(err)
		}
		want := []string{
			"deliveries{applied} 1", "deliveries{conflict} 1", "deliveries{kept} 1", "deliveries{repeated} 1",
			"deliveries{signature} 1", "deliveries{too_new} 1", "deliveries{too_old} 1",
			"inbox{charged_after_refusal} 0", "inbox{dead} 1", "inbox{failed} 0",
			"skew{} 4, 100 s in all",
		}
		if diff := cmp.Diff(want, metrictest.Lines(t, reader, metrictest.Options{Prefix: "chargeonce.webhook.", Sums: true})); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	})
}
