package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chargeonce/api/payments/v1/client"
)

var unknownResultExperiment = with(Experiment{
	Name:  "unknown-result",
	Title: "A server that charges, and whose answers come too late: sent again without the key, and with it",
	Shows: `The server charges, commits, and its answer is late; the client's time is over before it comes. A time-out does not say
whether the request was lost, is still being worked on, or is done: the client sees the same either way, so it sends again. What
becomes of that is up to the key. A client that has none for the purchase (here: a new one for every send, since this service
refuses a request without) is charged once for every send, and is told of one charge. With one key the second send finds what the
first one did and gets its stored answer in a few milliseconds. And an unknown result never stays one: the same key, sent whenever,
gives the one final answer.`,
	Code:  []string{"internal/payment/flow.go", "internal/idempotency/store.go", "api/payments/v1/client/intent.go"},
	Bound: time.Minute,
}, unknownNumbers{Sends: 3, TimeOut: 150 * time.Millisecond, Late: 2, LateBy: 300 * time.Millisecond},
	unknownNumbers{Sends: 3, TimeOut: 250 * time.Millisecond, Late: 2, LateBy: 400 * time.Millisecond}, runUnknownResult)

// unknownNumbers are the document's, at full size.
type unknownNumbers struct {
	Sends   int           `help:"How often the client sends a purchase at most."`
	TimeOut time.Duration `help:"How long it waits for an answer."`
	Late    int           `help:"How many answers to a new charge come late."`
	LateBy  time.Duration `help:"How late they come." max:"5s"`
}

// unhurried is how long a client waits that has time.
const unhurried = 10 * time.Second

// unknownWay is one way to send a purchase again, what the document says of it, if anything, and what came of it.
type unknownWay struct {
	name, document, documentCharges, order string
	key                                    func() client.Key // of the next send

	replies       []reply
	charges, rows int64
}

func runUnknownResult(ctx context.Context, env Env, _ Options, n unknownNumbers) (r Report, err error) {
	one := client.NewKey()
	fresh := &unknownWay{name: "a new key for every send", document: "time-out → time-out → 200", documentCharges: "3",
		order: "fresh", key: client.NewKey}
	kept := &unknownWay{name: "one key", document: "time-out → 200 (stored, 7–20 ms)", documentCharges: "1",
		order: "kept", key: func() client.Key { return one }}
	none := &unknownWay{name: "no key at all", order: "none", key: func() client.Key { return "" }}

	var later reply
	err = env.withService(ctx, func(s *site) error {
		at, err := s.rig.StartServer(ctx, "server", s.psp.sim)
		if err != nil {
			return err
		}
		direct := s.poster(at, nil)
		// The first request opens the server's connections, which is no part of this.
		if _, err := direct.postWithin(ctx, unhurried, client.NewKey(), purchaseBody("warm", 1250)); err != nil {
			return err
		}
		for _, w := range []*unknownWay{fresh, kept, none} {
			link := &lateLink{pool: &http.Transport{IdleConnTimeout: time.Minute}, by: n.LateBy}
			link.left.Store(int64(n.Late))
			err := w.send(ctx, s.poster(at, link), n)
			link.underWay.Wait()
			if err = errors.Join(err, s.countUnknown(ctx, w)); err != nil {
				return err
			}
		}
		later, err = direct.postWithin(ctx, unhurried, one, purchaseBody(kept.order, 1250))
		if err != nil {
			return err
		}
		return s.reportLater(ctx, &r, kept.order, later)
	})
	if err != nil {
		return r, err
	}
	n.report(&r, fresh, kept, none, later)
	return r, nil
}

// send sends the purchase until it is answered for good, or as often as it may.
func (w *unknownWay) send(ctx context.Context, p *poster, n unknownNumbers) error {
	for range n.Sends {
		got, err := p.postWithin(ctx, n.TimeOut, w.key(), purchaseBody(w.order, 1250))
		if err != nil {
			return err
		}
		w.replies = append(w.replies, got)
		if got.status/100 == 2 || got.status == http.StatusBadRequest {
			return nil
		}
	}
	return nil
}

// countUnknown counts what stands at the PSP and in our table.
func (s *site) countUnknown(ctx context.Context, w *unknownWay) error {
	charges, err := s.psp.sim.ChargesOf(ctx, w.order)
	if err != nil {
		return err
	}
	w.charges = int64(len(charges))
	w.rows, err = s.count(ctx, "SELECT COUNT(*) FROM payments WHERE user_id = ? AND order_id = ?", user, w.order)
	return err
}

// reportLater demands that the answer to the key is the payment of its one charge.
func (s *site) reportLater(ctx context.Context, r *Report, order string, later reply) error {
	told, err := later.paymentID()
	if err != nil {
		return err
	}
	charges, err := s.psp.sim.ChargesOf(ctx, order)
	if err != nil {
		return err
	}
	var own int64
	for _, c := range charges {
		if c.Metadata["payment_id"] == told {
			own++
		}
	}
	r.equal("one key, sent once more: charges of the payment that the answer names", 1, own)
	return nil
}

func (n unknownNumbers) report(r *Report, fresh, kept, none *unknownWay, later reply) {
	t := Table{Title: fmt.Sprintf("Time-out %s, at most %d sends; the first %d answers to a new charge come %s late",
		ms(n.TimeOut), n.Sends, n.Late, ms(n.LateBy)),
		Columns: []string{"the client sends", "", "what it sees", "charges", "payment rows"}}
	for _, w := range []*unknownWay{fresh, kept, none} {
		name := w.name
		if w.document != "" {
			t.add(name, "document", w.document, w.documentCharges, "")
			name = ""
		}
		t.add(name, "here", w.saw(), fmt.Sprint(w.charges), fmt.Sprint(w.rows))
	}
	t.add("one key, once more later", "here", later.withTime(), fmt.Sprint(kept.charges), fmt.Sprint(kept.rows))
	r.Tables = append(r.Tables, t)
	r.Plots = append(r.Plots, Plot{
		Title: "Charges for one purchase", Y: "charges", Categories: []string{fresh.name, kept.name},
		Series: []Series{
			{Name: "document", Y: []float64{3, 1}, Document: true},
			{Name: "here", Y: []float64{float64(fresh.charges), float64(kept.charges)}},
		},
	})
	r.equal("a new key for every send: charges, one for each send", int64(len(fresh.replies)), fresh.charges)
	r.equal("one key: charges", 1, kept.charges)
	r.equal("one key: payment rows", 1, kept.rows)
	r.equal("no key: charges, since the request is refused", 0, none.charges)
	r.same("one key, sent once more: the stored answer", "201 replayed", later.String())
}

// saw words what the client saw, send by send.
func (w *unknownWay) saw() string {
	words := make([]string, len(w.replies))
	for i, got := range w.replies {
		words[i] = got.withTime()
	}
	return strings.Join(words, " → ")
}

// withTime words a reply and how long it took.
func (r reply) withTime() string { return fmt.Sprintf("%s (%s)", r, ms(r.took)) }

// lateLink is a way to the server on which answers come late that tell of a new charge, as many as are left. The server does its
// work in any case and to the end: the link does not tell it that the client has gone.
type lateLink struct {
	pool     http.RoundTripper
	by       time.Duration
	left     atomic.Int64
	underWay sync.WaitGroup
}

// RoundTrip implements http.RoundTripper.
func (l *lateLink) RoundTrip(req *http.Request) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	done := make(chan answer, 1)
	l.underWay.Go(func() {
		resp, err := l.forward(req)
		done <- answer{resp, err}
	})
	select {
	case a := <-done:
		return a.resp, a.err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// forward gets the whole answer, which is there once the server has committed, and holds it back if it is to be late.
func (l *lateLink) forward(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), unhurried)
	defer cancel()
	resp, err := l.pool.RoundTrip(req.Clone(ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminPage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	fresh := resp.StatusCode == http.StatusCreated && resp.Header.Get("Idempotent-Replayed") == ""
	if fresh && l.left.Add(-1) >= 0 {
		err = waitFor(ctx, l.by)
	}
	return resp, err
}
