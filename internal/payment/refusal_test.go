package payment_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// liar is a PSP behind a bad way, over real HTTP: it charges with the first POST and drops the connection; the second POST is answered
// by say; every later one tells the truth, and so do look-ups unless they are cut off.
type liar struct {
	say       func(w http.ResponseWriter, key string)
	cutLookUp bool

	mu     sync.Mutex
	posts  int
	charge string // the charge's JSON
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	switch {
	case r.Method == http.MethodGet && l.cutLookUp && l.posts < 3:
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet:
		reply(w, http.StatusOK, fmt.Sprintf(`{"idempotency_key": %q, "result": "charged", "charge": %s}`, r.FormValue("idempotency_key"), l.charge))
	default:
		l.posts++
		switch l.posts {
		case 1:
			var body struct {
				Amount   int64
				Currency string
				Metadata json.RawMessage
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				panic(err)
			}
			l.charge = fmt.Sprintf(`{"id": "ch_1", "idempotency_key": %q, "amount": %d, "currency": %q, "status": "succeeded",
				"metadata": %s, "created_at": "2026-01-01T00:00:00Z"}`, key, body.Amount, body.Currency, body.Metadata)
			panic(http.ErrAbortHandler) // drops the connection
		case 2:
			l.say(w, key)
		default:
			reply(w, http.StatusOK, l.charge)
		}
	}
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write([]byte(body)); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func refuses(status int, kind string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, key string) {
		reply(w, status, fmt.Sprintf(`{"error": {"type": %q, "code": "x", "message": "…", "idempotency_key": %q}}`, kind, key))
	}
}

// A first attempt charged, and its answer was lost. Whatever says no to the second one, no refusal is stored: the charge exists.
func TestNoRefusalIsStoredAfterAnAttemptThatCharged(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(http.ResponseWriter, string){
		"decline":          refuses(402, "card_declined"),
		"rejection":        refuses(422, "charge_rejected"),
		"cancelled-key":    refuses(410, "key_canceled"),
		"401":              refuses(401, "unauthorized"),
		"404":              refuses(404, "not_found"),
		"404-of-a-proxy":   func(w http.ResponseWriter, _ string) { http.Error(w, "<html>not here</html>", http.StatusNotFound) },
		"403":              refuses(403, "forbidden"),
		"413":              refuses(413, "too_large"),
		"422-other":        refuses(422, "idempotency_mismatch"),
		"another-key's-no": func(w http.ResponseWriter, _ string) { refuses(402, "card_declined")(w, "another") },
		"cut-body": func(w http.ResponseWriter, key string) {
			w.Header().Set("Content-Length", "500")
			reply(w, http.StatusPaymentRequired, `{"error": {"type": "card_declined", "idempotency_key": "`+key)
			panic(http.ErrAbortHandler)
		},
	} {
		for _, cut := range []bool{false, true} {
			k := name + map[bool]string{false: "", true: "-and-no-look-up"}[cut]
			t.Run(k, func(t *testing.T) {
				t.Parallel()
				db := mysql.NewTestDB(t)
				srv := httptest.NewServer(&liar{say: say, cutLookUp: cut})
				t.Cleanup(srv.Close)
				srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
				client, err := psp.New(psp.Config{BaseURL: srv.URL, APIKey: "k", Logger: quiet, BackoffBase: time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.Close)
				f := newFlowShared(t, db, client)

				var a payment.Answer
				for range 3 { // the client's own retries, with the same key
					a, err = f.Create(testCtx(t), purchase(t, "k"))
					if err == nil {
						break
					}
					var undecided *payment.UndecidedError
					if !errors.As(err, &undecided) || undecided.Why != payment.OutcomeUnknown {
						t.Fatalf("error %v; want outcome unknown", err)
					}
					if row := key(t, db, "k"); row.Status != idempotency.Processing || row.LeaseLeft > 0 || row.Stored.Code != 0 {
						t.Fatalf("the key is %+v; want it released", row)
					}
				}
				if err != nil || a.Stored.Code != 201 || !strings.Contains(string(a.Stored.Body), `"ch_1"`) {
					t.Fatalf("%d %s, %v; want 201 with the charge", a.Stored.Code, a.Stored.Body, err)
				}
				if diff := cmp.Diff([]payment.Payment{paymentIn(t, a)}, rows(t, db)); diff != "" {
					t.Errorf("rows (-answer +rows):\n%s", diff)
				}
			})
		}
	}
}
