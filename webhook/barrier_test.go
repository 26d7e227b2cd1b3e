package webhook_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
	"chargeonce/internal/telemetry"
	"chargeonce/webhook"
)

// rounds is how often the two meet in each order: 200 times when CHARGEONCE_PROOF is set, as `make proof` does.
func rounds() int {
	if os.Getenv("CHARGEONCE_PROOF") != "" {
		return 200
	}
	return 15
}

// The event and the request's finish are in their transactions at the same instant, in both orders: the one that came
// first is held before its COMMIT until the other waits for a row of its. One payment, one event, and the same answer.
func finishAndWebhookAtTheSameInstant(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// whether the event, and not the request, has written the payment when the other comes
		eventFirst bool
	}{
		{"the event is first and the finish waits for it", true},
		{"the finish is first and the event waits for it", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			held := newMeeting(e, tt.eventFirst)
			for n := range rounds() {
				held.round(n)
			}
		})
	}
}

// meeting is a receiver and a flow, one of which reaches the database through a proxy that holds its COMMITs.
type meeting struct {
	*env
	proxy      *mysql.FaultProxy
	flow       *payment.Flow
	handler    *webhook.Handler
	eventFirst bool
}

func newMeeting(e *env, eventFirst bool) *meeting {
	e.t.Helper()
	m := &meeting{env: e, flow: e.flow, handler: e.handler, eventFirst: eventFirst, proxy: mysql.NewFaultProxy(e.t, e.dsn)}
	db, err := mysql.Open(m.proxy.DSN, mysql.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			e.t.Error(err)
		}
	})
	held := payment.NewFlow(db, e.psp, renderer{}, payment.Timing{}, quiet())
	if !eventFirst {
		m.flow = held
		return m
	}
	m.handler, err = webhook.New(webhook.Config{DB: db, Flow: held, Secrets: []telemetry.Secret{secretA}, Logger: quiet()})
	if err != nil {
		e.t.Fatal(err)
	}
	return m
}

func (m *meeting) round(n int) {
	m.t.Helper()
	p := newPurchase(m.t)
	atPSP, charged := make(chan string), make(chan struct{})
	m.psp.charge = func(r psp.ChargeRequest) psp.Result {
		atPSP <- r.Metadata.PaymentID
		<-charged
		return psp.Result{Kind: psp.Succeeded, Charge: &psp.Charge{
			ID: p.chargeID, IdempotencyKey: r.Key, Amount: r.Amount, Currency: r.Currency, Status: "succeeded", Metadata: r.Metadata,
		}}
	}
	answered, received := make(chan string, 1), make(chan string, 1)
	go func() {
		a, err := (&env{t: m.t, flow: m.flow}).create(p)
		answered <- fmt.Sprintf("%d %s %v", a.Stored.Code, a.Stored.Body, err)
	}()
	p.paymentID = <-atPSP
	event := signed(m.t, "evt_"+p.chargeID, time.Now(), p.event(m.t, "succeeded"), secretA)
	finish := func() { close(charged) }
	deliver := func() {
		go func() {
			w := httptest.NewRecorder()
			m.handler.ServeHTTP(w, event)
			received <- fmt.Sprintf("%d %s", w.Code, w.Body)
		}()
	}
	first, second := finish, deliver
	if m.eventFirst {
		first, second = deliver, finish
	}
	goOn := make(chan struct{})
	m.proxy.Inject(mysql.Fault{Kind: mysql.Delay, Match: "COMMIT", Deliver: goOn})
	first()
	m.proxy.AwaitFired(m.t, "COMMIT", n+1)
	second()
	m.awaitLockWait()
	close(goOn)

	if diff := cmp.Diff(fmt.Sprintf("201 %s <nil>", p.paid("succeeded")[0]), <-answered); diff != "" {
		m.t.Errorf("round %d: the request's answer (-want +got):\n%s", n, diff)
	}
	if diff := cmp.Diff(`200 {"result":"applied"}`, <-received); diff != "" {
		m.t.Errorf("round %d: the event's answer (-want +got):\n%s", n, diff)
	}
	if diff := cmp.Diff(p.paid("succeeded"), m.payments(p.chargeID)); diff != "" {
		m.t.Fatalf("round %d: payments (-want +got):\n%s", n, diff)
	}
}

// awaitLockWait returns once a transaction of this database waits for a row that another one holds.
func (m *meeting) awaitLockWait() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	for try := 0; ; try++ {
		var n int
		err := m.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM performance_schema.data_lock_waits w
			JOIN performance_schema.data_locks l ON l.engine_lock_id = w.requesting_engine_lock_id
			WHERE l.object_schema = DATABASE()`).Scan(&n)
		if err != nil {
			m.t.Fatal(err)
		}
		if n > 0 {
			return
		}
		if err := mysql.Pause(ctx, try, 5*time.Millisecond); err != nil {
			m.t.Fatalf("nobody waits for the row: %v", err)
		}
	}
}
