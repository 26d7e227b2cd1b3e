package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// buyer is a client of the service: it keeps to the contract where money is at stake, and is as rude as the contract allows
// everywhere else.
type buyer struct {
	id    int
	user  int64
	doors *doors
	h     *history
	guard bool
	// closed is closed when nothing new is bought any more.
	closed <-chan struct{}

	mu   sync.Mutex
	dice *rand.Rand
	made int
}

// tokens are what is paid with, the likely ones more than once.
var tokens = []string{
	"tok_visa", "tok_visa", "tok_visa", "tok_visa", "tok_declined", "tok_insufficient_funds", "tok_rejected", "tok_pending", "tok_pending_fails",
}

var currencies = []string{"EUR", "USD", "JPY"}

// n throws the dice: 0 to below.
func (b *buyer) n(below int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dice.IntN(below)
}

// chance is true in so many cases of a hundred.
func (b *buyer) chance(percent int) bool { return b.n(100) < percent }

// upTo is a random time.
func (b *buyer) upTo(d time.Duration) time.Duration { return time.Duration(b.n(int(d))) }

// run buys one thing after another until the shop is closed, and ends when the last one is known.
func (b *buyer) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-b.closed:
			return
		default:
		}
		b.buyOne(ctx)
		if pause(ctx, b.upTo(30*time.Millisecond)) != nil {
			return
		}
	}
}

// buyOne buys one thing and does around it what people and programs do.
func (b *buyer) buyOne(ctx context.Context) {
	p := b.newPurchase()
	if b.chance(5) { // a key that another user has used: a different key all the same
		if other, ok := b.h.pick(uint64(b.n(1 << 30))); ok && other.user != b.user {
			p.key = other.key
		}
	}
	if !b.h.begin(p) {
		return
	}
	if b.guard && b.chance(8) { // the app was installed anew and has forgotten its key: the same order under another one
		twin := p
		twin.key = string(client.NewKey())
		if b.h.begin(twin) {
			var both sync.WaitGroup
			both.Go(func() { b.settle(ctx, twin) })
			defer both.Wait()
		}
	}
	b.settle(ctx, p)
	if ctx.Err() != nil {
		return
	}
	switch b.n(10) {
	case 0, 1:
		b.pay(ctx, p) // once more, for the replay
	case 2:
		b.misuse(ctx, p)
	case 3, 4:
		b.peep(ctx)
	case 5:
		b.list(ctx)
	case 6:
		b.get(ctx, p)
	}
}

func (b *buyer) newPurchase() purchase {
	b.mu.Lock()
	b.made++
	n := b.made
	b.mu.Unlock()
	return purchase{
		slot:     slot{b.user, fmt.Sprintf("key-%d-%d-%06x", b.id, n, b.n(1<<24))},
		order:    fmt.Sprintf("u%d.c%d.%d", b.user, b.id, n),
		amount:   int64(1 + b.n(100_000)),
		currency: currencies[b.n(len(currencies))],
		token:    tokens[b.n(len(tokens))],
	}
}

// settle sends the purchase under its one key until the answer is final. Sometimes it clicks twice.
func (b *buyer) settle(ctx context.Context, p purchase) {
	for ctx.Err() == nil {
		clicks := 1
		if b.chance(15) {
			clicks += 1 + b.n(2)
		}
		answers := make([]answer, clicks)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = b.pay(ctx, p) })
		}
		all.Wait()
		for _, a := range answers {
			if a.final != "" || a.action != paymentsv1.NextAction_RETRY_SAME_KEY {
				return // one that is neither is a violation, which the check finds
			}
		}
		// Shorter than what the service asks for, most of the time.
		if pause(ctx, 10*time.Millisecond+b.upTo(300*time.Millisecond)) != nil {
			return
		}
	}
}

// pay sends the purchase once, with a patience of its own.
func (b *buyer) pay(ctx context.Context, p purchase) answer {
	if b.chance(10) { // rather wait for another request's answer than hear that it is under way; a preference of gRPC's face alone here
		ctx = metadata.AppendToOutgoingContext(ctx, "prefer", "wait=1")
	}
	return b.send(ctx, actPay, p.slot, func(ctx context.Context, c *client.Client) (*paymentsv1.Payment, bool, error) {
		return payOnce(ctx, c, p.key, p.request())
	})
}

// misuse sends the key with another amount, which must be refused.
func (b *buyer) misuse(ctx context.Context, p purchase) {
	req := proto.CloneOf(p.request())
	req.Amount++
	b.send(ctx, actMisuse, p.slot, func(ctx context.Context, c *client.Client) (*paymentsv1.Payment, bool, error) {
		return payOnce(ctx, c, p.key, req)
	})
}

// peep asks for another user's payment, which must not be found.
func (b *buyer) peep(ctx context.Context) {
	id, owner, ok := b.h.payment(uint64(b.n(1 << 30)))
	if !ok || owner == b.user {
		return
	}
	b.send(ctx, actForeign, slot{user: b.user}, func(ctx context.Context, c *client.Client) (*paymentsv1.Payment, bool, error) {
		got, err := c.Get(ctx, id)
		if err == nil {
			b.h.alarm(violation{promise: 8, slot: b.h.slotOf(id),
				text: fmt.Sprintf("user %d asked for payment %s of user %d and got it: %v", b.user, id, owner, got)})
		}
		return got, false, err
	})
}

// get asks for the payment of a purchase of its own.
func (b *buyer) get(ctx context.Context, p purchase) {
	id := b.h.paymentOf(p.slot)
	if id == "" {
		return
	}
	b.send(ctx, actGet, p.slot, func(ctx context.Context, c *client.Client) (*paymentsv1.Payment, bool, error) {
		got, err := c.Get(ctx, id)
		if err == nil && (got.GetId() != id || got.GetOrderId() != p.order || got.GetAmount() != p.amount || got.GetCurrency() != p.currency) {
			b.h.alarm(violation{promise: 8, slot: p.slot, text: fmt.Sprintf("asked for payment %s and got %v", id, got)})
		}
		return got, false, err
	})
}

// list asks for its user's payments, among which must be nobody else's.
func (b *buyer) list(ctx context.Context) {
	prefix := fmt.Sprintf("u%d.", b.user)
	b.send(ctx, actList, slot{user: b.user}, func(ctx context.Context, c *client.Client) (*paymentsv1.Payment, bool, error) {
		page, err := c.List(ctx, &paymentsv1.ListPaymentsRequest{PageSize: 20})
		for _, p := range page.GetPayments() {
			if len(p.GetOrderId()) < len(prefix) || p.GetOrderId()[:len(prefix)] != prefix {
				b.h.alarm(violation{promise: 8, slot: b.h.slotOf(p.GetId()), text: fmt.Sprintf("user %d was listed another's payment: %v", b.user, p)})
			}
		}
		return nil, false, err
	})
}

// sending is one call of the client.
type sending func(context.Context, *client.Client) (payment *paymentsv1.Payment, replayed bool, err error)

// send makes one request at any of the doors, and writes down what came of it. It leaves early now and then: by a short time-out,
// of which the service is told, or by hanging up, of which it is not.
func (b *buyer) send(ctx context.Context, what act, s slot, call sending) answer {
	d := b.doors.any(b.user, b.n)
	patience := 1500 * time.Millisecond
	if b.chance(15) {
		patience = 120*time.Millisecond + b.upTo(400*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if b.chance(8) {
		hangUp := time.AfterFunc(b.upTo(150*time.Millisecond), cancel)
		defer hangUp.Stop()
	}
	o := op{slot: s, client: b.id, act: what, server: d.server, face: d.face, called: time.Now()}
	payment, replayed, err := call(ctx, d.client)
	o.returned, o.answer = time.Now(), answerOf(payment, replayed, err)
	b.h.add(o)
	return o.answer
}

// payOnce is one try at a purchase.
func payOnce(ctx context.Context, c *client.Client, key string, req *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, bool, error) {
	out, err := c.Pay(ctx, client.Intent{Key: client.Key(key), Request: req})
	if err != nil {
		return nil, false, err
	}
	return out.Payment, out.Replayed, nil
}
