package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"chargeonce/api/payments/v1/client"
	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/psp"
)

var doubleClickExperiment = with(Experiment{
	Name:  "double-click",
	Title: "Two requests with one key, 20 ms apart, while the work takes 200 ms: four ways to answer the second",
	Shows: `Somebody clicks twice. Design A writes the key and does the work in one transaction: the second INSERT of the key waits for
the first one's lock, for as long as the work takes, and then gets the stored answer. That is simple and right as long as all of
the work is in the same database; a call to a PSP cannot be rolled back, and holds a connection and a lock while it lasts. Design B,
this service's, commits the key as processing first: the second click is told 409 at once, and asks again, or has the server wait
for it (Prefer: wait). Either way the unique key is the arbiter, before anything is done: one charge. Check-then-act looks first and
writes the key last: both clicks find nothing, both charge, and the unique key only tells the second one, with a 500, after its
money is gone.`,
	Code: []string{"internal/lab/doubleclickdesigns.go", "internal/idempotency/insert.go", "internal/idempotency/store.go",
		"internal/payment/wait.go"},
	Bound: time.Minute,
}, doubleClickNumbers{Rounds: 3, Apart: 20 * time.Millisecond, Work: 200 * time.Millisecond},
	doubleClickNumbers{Rounds: 1, Apart: 20 * time.Millisecond, Work: 600 * time.Millisecond}, runDoubleClick)

// doubleClickNumbers are the document's, at full size.
type doubleClickNumbers struct {
	Rounds int           `help:"How often the double click is made."`
	Apart  time.Duration `help:"How long after the first click the second one comes."`
	Work   time.Duration `help:"How long the work takes: the PSP's charge, or in design A what is done in its place." max:"1s"`
}

// clickWay is one way to answer a purchase. pay is one click; what tells a purchase from others is its order, which is its key too.
type clickWay struct {
	name, document string // document is the way's name there
	pay            func(ctx context.Context, order string, amount int64) (reply, error)
	charges        func(ctx context.Context, order string) (int64, error)
	waits          bool // the second click waits for the first one's answer

	first, second, later, other []reply // of each round: the clicks, the same once more, and another amount
	charged                     int64   // in all rounds
}

const clickAmount = 1250

func runDoubleClick(ctx context.Context, env Env, _ Options, n doubleClickNumbers) (r Report, err error) {
	var ways []*clickWay
	err = env.withService(ctx, func(s *site) error {
		if ways, err = s.clickWays(ctx, n); err != nil {
			return err
		}
		for round := range n.Rounds {
			// All ways at once: they share nothing but the machine, and wait most of the time.
			if err := crowd(ctx, len(ways), len(ways), func(ctx context.Context, i int) error {
				return ways[i].round(ctx, fmt.Sprintf("click-%d-%d", i, round), n.Apart)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	n.report(&r, ways)
	return r, nil
}

// clickWays sets the ways up and opens their connections.
func (s *site) clickWays(ctx context.Context, n doubleClickNumbers) ([]*clickWay, error) {
	at, err := s.rig.StartServer(ctx, "server", s.psp.sim)
	if err != nil {
		return nil, err
	}
	b := s.poster(at, nil)
	psp, _, err := s.pspClient(psp.Config{MaxAttempts: 1})
	if err != nil {
		return nil, err
	}
	a := &oneTransaction{db: s.db.DB, work: func(ctx context.Context) error { return waitFor(ctx, n.Work) }}
	unsafe := &checkThenAct{db: s.db.DB, psp: psp}
	if err := errors.Join(a.create(ctx), unsafe.create(ctx)); err != nil {
		return nil, err
	}
	atPSP := func(ctx context.Context, order string) (int64, error) {
		charges, err := s.psp.sim.ChargesOf(ctx, order)
		return int64(len(charges)), err
	}
	overHTTP := func(header ...string) func(context.Context, string, int64) (reply, error) {
		return func(ctx context.Context, order string, amount int64) (reply, error) {
			return b.postWithin(ctx, unhurried, client.Key(order), purchaseBody(order, amount), header...)
		}
	}
	ways := []*clickWay{
		{name: "A: key and work in one transaction", document: "A", pay: a.pay, charges: a.charges, waits: true},
		{name: "B: the key committed first", document: "B", pay: overHTTP(), charges: atPSP},
		{name: "B, Prefer: wait=5", pay: overHTTP("Prefer: wait=5"), charges: atPSP, waits: true},
		{name: "check, then act", document: "check-then-act", pay: unsafe.pay, charges: atPSP},
	}
	for i, w := range ways {
		if _, err := w.pay(ctx, fmt.Sprintf("warm-%d", i), clickAmount); err != nil {
			return nil, err
		}
	}
	return ways, s.psp.setFaults(ctx, gatewaysim.Faults{Latency: gatewaysim.Fixed(n.Work)})
}

// overlapTries bounds how often a double click is made again that was none.
const overlapTries = 5

// round clicks twice, then once more when both are answered, and then asks for another amount under the same key.
func (w *clickWay) round(ctx context.Context, order string, apart time.Duration) error {
	base := order
	first, second, err := w.click(ctx, order, apart)
	// On a busy machine the second click may come when the first one is done. That shows nothing.
	for try := 1; err == nil && !w.waits && second.replayed && try < overlapTries; try++ {
		order = fmt.Sprintf("%s-%d", base, try)
		first, second, err = w.click(ctx, order, apart)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	later, err := w.pay(ctx, order, clickAmount)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	other, err := w.pay(ctx, order, clickAmount+1)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	charged, err := w.charges(ctx, order)
	w.first, w.second = append(w.first, first), append(w.second, second)
	w.later, w.other = append(w.later, later), append(w.other, other)
	w.charged += charged
	return err
}

// click clicks twice. First is the click that did the work, whichever arrived first.
func (w *clickWay) click(ctx context.Context, order string, apart time.Duration) (first, second reply, err error) {
	var clicks [2]reply
	var errs [2]error
	_, err = paced(ctx, len(clicks), apart, func(i int) { clicks[i], errs[i] = w.pay(ctx, order, clickAmount) })
	first, second = clicks[0], clicks[1]
	if !first.charged() && second.charged() {
		first, second = second, first
	}
	return first, second, errors.Join(err, errs[0], errs[1])
}

// charged reports whether the reply tells of a charge that this request made.
func (r reply) charged() bool { return r.status == http.StatusCreated && !r.replayed }

func (n doubleClickNumbers) report(r *Report, ways []*clickWay) {
	documents := map[string][]string{
		"A":              {"200 (214–223 ms)", "200 replayed (196–202 ms)", "1", "", "422"},
		"B":              {"200 (219–230 ms)", "409 (3–8 ms)", "1", "200 replayed", "422"},
		"check-then-act": {"201", "500", "2", "", ""},
	}
	t := Table{Title: fmt.Sprintf("%d double clicks, %s apart, work of %s", n.Rounds, ms(n.Apart), ms(n.Work)),
		Columns: []string{"way", "", "first click", "second click", "charges each", "once more", "another amount"}}
	for _, w := range ways {
		name := w.name
		if document := documents[w.document]; document != nil {
			t.add(append([]string{name, "document"}, document...)...)
			name = ""
		}
		t.add(name, "here", inAll(w.first, true), inAll(w.second, true), fmt.Sprint(w.charged/int64(n.Rounds)),
			inAll(w.later, false), inAll(w.other, false))
	}
	r.Tables = append(r.Tables, t)
	r.Notes = append(r.Notes, `The document's 201, 409, one charge for "claim first" is design B.`)
	r.Plots = append(r.Plots, clickPlot(ways))

	rounds := int64(n.Rounds)
	a, b, waits, unsafe := ways[0], ways[1], ways[2], ways[3]
	for _, w := range []*clickWay{a, b, waits} {
		r.equal(w.name+": charges, one for each double click", rounds, w.charged)
		r.equal(w.name+": first clicks that are answered as charged", rounds, having(w.first, http.StatusCreated, false))
		r.equal(w.name+": another amount refused", rounds, having(w.other, http.StatusUnprocessableEntity, false))
		r.equal(w.name+": the stored answer, once more", rounds, having(w.later, http.StatusCreated, true))
	}
	r.equal(a.name+": second clicks that waited for the first one's answer", rounds, having(a.second, http.StatusCreated, true))
	r.equal(b.name+": second clicks that are told 409", rounds, having(b.second, http.StatusConflict, false))
	r.equal(waits.name+": second clicks that waited for the first one's answer", rounds, having(waits.second, http.StatusCreated, true))
	r.equal(unsafe.name+": charges, two for each double click", 2*rounds, unsafe.charged)
	r.equal(unsafe.name+": clicks that are told 500 after they were charged", rounds,
		having(unsafe.first, http.StatusInternalServerError, false)+having(unsafe.second, http.StatusInternalServerError, false))
}

// clickPlot shows how long the second click waits.
func clickPlot(ways []*clickWay) Plot {
	p := Plot{Title: "How long the second click waits for an answer (document: the middle of its range)", Y: "milliseconds",
		Series: []Series{{Name: "document", Y: []float64{199, 5.5, math.NaN()}, Document: true}, {Name: "here"}}}
	for _, w := range ways[:3] {
		p.Categories = append(p.Categories, w.name)
		p.Series[1].Y = append(p.Series[1].Y, float64(quantile(tookOf(w.second), .5).Microseconds())/1000)
	}
	return p
}

func tookOf(all []reply) []time.Duration {
	var out []time.Duration
	for _, r := range all {
		out = append(out, r.took)
	}
	return out
}

// having counts the replies with that status that are replays, or are not.
func having(all []reply, status int, replayed bool) (n int64) {
	for _, r := range all {
		if r.status == status && r.replayed == replayed {
			n++
		}
	}
	return n
}

// inAll words the replies of all rounds as one, when they are alike.
func inAll(all []reply, timed bool) string {
	words := all[0].String()
	for _, r := range all {
		if r.String() != words {
			words = "differs by round"
		}
	}
	if !timed {
		return words
	}
	least, most := quantile(tookOf(all), 0).Milliseconds(), quantile(tookOf(all), 1).Milliseconds()
	if least == most {
		return fmt.Sprintf("%s (%d ms)", words, most)
	}
	return fmt.Sprintf("%s (%d–%d ms)", words, least, most)
}
