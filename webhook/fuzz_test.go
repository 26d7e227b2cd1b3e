package webhook

import (
	"net/http"
	"testing"
	"time"

	"chargeonce/internal/telemetry"
)

// Whatever the headers say, an event is taken only with a signature that was made with our secret; and nothing panics.
func FuzzHeaders(f *testing.F) {
	f.Add("msg_1", "1700000000", "v1,AAAA", []byte(`{}`))
	f.Add("", "", "", []byte(nil))
	f.Add("msg_1", "-1", "v1,", []byte("x"))
	f.Add("msg_1", "99999999999999999999", "v1a,xx v1,yy", []byte("x"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		v, err := newVerifier([]telemetry.Secret{"whsec_Zm9yIHRlc3RzIG9ubHksIG5vIHNlY3JldCBhdCBhbGw="}, 5*time.Minute, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		h["Webhook-Id"], h["Webhook-Timestamp"], h["Webhook-Signature"] = []string{id}, []string{timestamp}, []string{signature}
		if _, why := v.verify(h, body); why == "" {
			t.Fatalf("a signature that nobody made was taken: %q %q %q", id, timestamp, signature)
		}
	})
}
