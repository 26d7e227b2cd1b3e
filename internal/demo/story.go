package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// The cards, as the PSP's tokens.
const (
	visa     = "tok_visa"
	declined = "tok_declined"
)

// The app's patience: the longest that it waits for one answer, and how often it comes back.
const (
	tryTimeout = 2 * time.Second
	maxTries   = 20
)

// story is a scenario while it is played. A step that fails ends it: the steps after it do nothing.
type story struct {
	*stage
	ctx   context.Context // bounds the one scenario that this is
	name  string
	began time.Time
	order string
	out   *printer

	mu      sync.Mutex // guards what sendings in the background write
	err     error
	key     client.Key // the purchase's
	sent    []*sending
	lastKey client.Key // that was sent
	checks  []check
	paidIDs map[string]bool
}

func newStory(ctx context.Context, st *stage, sc scenario, out *printer) *story {
	return &story{
		stage: st, ctx: ctx, name: sc.name, began: time.Now(), order: st.orderPrefix + sc.name, out: out,
		paidIDs: map[string]bool{},
	}
}

// tell adds a line to the timeline.
func (s *story) tell(who, format string, args ...any) {
	s.out.line(time.Since(s.began), who, fmt.Sprintf(format, args...))
}

// step does something, unless the story has ended.
func (s *story) step(do func(context.Context) error) {
	if s.failed() {
		return
	}
	if err := do(s.ctx); err != nil {
		s.fail(err)
	}
}

func (s *story) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

func (s *story) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// expect adds a check of this story's own.
func (s *story) expect(what, want, got string) {
	s.checks = append(s.checks, check{what, want, got})
}

// intent is what the app does before it sends anything: it makes the one key of this purchase.
func (s *story) intent(card string) client.Intent {
	intent := client.NewIntent(&paymentsv1.CreatePaymentRequest{
		OrderId: s.order, Amount: 1250, Currency: "EUR", PaymentMethod: card, Description: "demo: " + s.name,
	})
	if s.key == "" { // a second key of the same order is to leave no row
		s.key = intent.Key
	}
	s.tell("app", "order %s, 12.50 EUR, %s: makes the key %s… for it", s.order, card, intent.Key[:6])
	return intent
}

// costing is a request for another amount under the same key, as an app with a fault makes it.
func (s *story) costing(i client.Intent, amount int64) client.Intent {
	changed := client.Intent{Key: i.Key, Request: proto.CloneOf(i.Request)}
	changed.Request.Amount = amount
	s.tell("app", "has a fault: asks for %d.%02d EUR under the same key", amount/100, amount%100)
	return changed
}

// sending is a purchase on its way.
type sending struct {
	leave context.CancelFunc
	done  chan struct{}
	// text is what the app was told; it may be read once done is closed.
	text string
}

// pay sends the purchase and comes back as it is told, until there is a final answer.
func (s *story) pay(at door, intent client.Intent) { s.await(s.start(at, intent)) }

// start is pay without waiting for its end.
func (s *story) start(at door, intent client.Intent) *sending { return s.send(at, intent, maxTries) }

// tryOnce sends the purchase once, without waiting for the answer.
func (s *story) tryOnce(at door, intent client.Intent) *sending { return s.send(at, intent, 1) }

func (s *story) send(at door, intent client.Intent, tries int) *sending {
	ctx, cancel := context.WithCancel(s.ctx)
	sent := &sending{leave: cancel, done: make(chan struct{})}
	if s.failed() {
		close(sent.done)
		return sent
	}
	what := "sends it"
	if s.lastKey == intent.Key {
		what = "sends the same key"
	}
	s.lastKey = intent.Key
	s.sent = append(s.sent, sent)
	s.tell("app", "%s to %s, %s", what, at.name, at.how())
	go func() {
		defer close(sent.done)
		defer cancel()
		text, err := s.call(ctx, at, intent, tries)
		sent.text = text
		if err != nil {
			s.fail(err)
		}
	}()
	return sent
}

// call is the app's call of the service. The error is a fault of the demo; whatever the service does is in the text.
func (s *story) call(ctx context.Context, at door, intent client.Intent, tries int) (text string, err error) {
	heard := &hearing{story: s, from: at.name}
	cfg := at.config()
	cfg.APIKey, cfg.TryTimeout, cfg.MaxTries, cfg.OnAttempt = s.apiKey, tryTimeout, tries, heard.attempt
	c, err := client.New(cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	out, err := c.Pay(ctx, intent)
	var refused *client.Error
	var unknown *client.OutcomeUnknownError
	switch {
	case err == nil:
		heard.success(out)
		s.mu.Lock()
		s.paidIDs[out.Payment.GetId()] = true
		s.mu.Unlock()
	case errors.As(err, &unknown):
		s.tell("app", "does not know the outcome, and keeps the key")
	case errors.As(err, &refused):
	default:
		return "", err
	}
	return heard.text(), nil
}

// await waits until a purchase has been answered, or given up.
func (s *story) await(sent *sending) { <-sent.done }

// awaitAll waits for what the story has left on its way.
func (s *story) awaitAll() {
	for _, sent := range s.sent {
		if s.failed() {
			sent.leave()
		}
		s.await(sent)
	}
}

// leave is the user closing the app while it waits.
func (s *story) leave(sent *sending) {
	s.tell("user", "closes the app")
	sent.leave()
	s.await(sent)
}

// sortAnswers is for purchases that were sent at once, whose order is a matter of chance.
func (s *story) sortAnswers() {
	slices.SortFunc(s.sent, func(a, b *sending) int {
		if a.text < b.text {
			return -1
		}
		return 1
	})
}
