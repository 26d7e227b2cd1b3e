package payment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"google.golang.org/protobuf/proto"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/psp"
)

// PSP is what the flow asks of the payment service provider. *psp.Client is the real one. Its methods end before the
// context's deadline and never fail: what is not known is psp.Unknown.
type PSP interface {
	Charge(context.Context, psp.ChargeRequest) psp.Result
	LookUp(ctx context.Context, key string, want psp.Expect) psp.Result
	Cancel(ctx context.Context, key string, want psp.Expect) psp.Result
}

// Timing bounds the parts of a request. The zero value takes the defaults.
type Timing struct {
	// StoreTimeout bounds the claim, the finish, and the release, each (default 3 s).
	StoreTimeout time.Duration
	// Reserve is kept back from the caller's deadline to record the outcome (default 200 ms).
	Reserve time.Duration
	// LeaseMargin is added to the longest a request can take, for pauses between its last look at the clock and the last
	// write (default 3 s).
	LeaseMargin time.Duration
	// MinCharge is the least time that is worth starting a charge with (default 50 ms).
	MinCharge time.Duration
	// PSPKeyRetention is how long the PSP surely remembers an idempotency key (default 90 days). A key that is older is never
	// charged again: what the PSP has forgotten it would charge a second time.
	PSPKeyRetention time.Duration
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&t.StoreTimeout, 3*time.Second)
	set(&t.Reserve, 200*time.Millisecond)
	set(&t.LeaseMargin, 3*time.Second)
	set(&t.MinCharge, 50*time.Millisecond)
	set(&t.PSPKeyRetention, 90*24*time.Hour)
	return t
}

// lease is how long the key must be ours for a request that has left to go: until its deadline, then a finish that begins at
// the last moment, then the margin. So it exceeds the deadline by construction.
func (t Timing) lease(left time.Duration) time.Duration { return left + t.StoreTimeout + t.LeaseMargin }

// Flow is the flow of a purchase. It is safe for use by many goroutines.
type Flow struct {
	db     *sql.DB
	keys   *idempotency.Store
	psp    PSP
	render Renderer
	timing Timing
	log    *slog.Logger
	now    func() time.Time

	// OnePaymentPerOrder has a claim fail while another key of the same user pays the same order, or once one has. It is set
	// before the flow is used.
	OnePaymentPerOrder bool

	observe  *observer
	together *together // nil: every finish by itself
	running  sync.WaitGroup
	watches  watches
}

// NewFlow returns the flow on a database opened by package mysql.
func NewFlow(db *sql.DB, p PSP, r Renderer, t Timing, log *slog.Logger) *Flow {
	return &Flow{
		db: db, keys: idempotency.NewStore(db), psp: p, render: r, timing: t.withDefaults(), log: log,
		now:     func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
		observe: newObserver(otel.Meter(scope), otel.Tracer(scope)),
	}
}

// Keys gives the lease store that the flow works on.
func (f *Flow) Keys() *idempotency.Store { return f.keys }

// Wait returns when every Create that has begun has ended, those whose client has left included, or with ctx's error. A server
// that stops calls it after it has stopped taking requests.
func (f *Flow) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		f.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Purchase is one request to pay. RPC and Request are what the key's fingerprint is taken of; the rest is what Request says.
type Purchase struct {
	UserID        int64
	Key           idempotency.Key
	RPC           string
	Request       proto.Message
	OrderID       string
	Amount        int64 // minor units
	Currency      string
	PaymentMethod string
	Description   string
	// Wait is how long to wait, within the deadline, for another request that works on the key, in place of an
	// *idempotency.InProgressError at once.
	Wait time.Duration
	// Claimed, if set, is told the payment id of the key once that is known, whoever minted it: what a log line can name of a purchase
	// without telling its key. It may be called more than once, and after the client has left.
	Claimed func(paymentID string)
}

func (p Purchase) charge(l idempotency.Lease) psp.ChargeRequest {
	return psp.ChargeRequest{
		Key:           idempotency.PSPKey(p.UserID, p.Key),
		Amount:        p.Amount,
		Currency:      p.Currency,
		PaymentMethod: p.PaymentMethod,
		Description:   p.Description,
		Metadata:      psp.Metadata{UserID: p.UserID, PaymentID: l.PaymentID, OrderID: p.OrderID},
		MayExist:      l.TakenOver(),
	}
}

// Create takes one request through the flow. ctx must have a deadline. It returns the final answer, or an error that says why
// there is none: idempotency.ErrReused, ErrParked or *InProgressError, an *[UndecidedError], an *[OrderPaidError] or
// *[OrderInProgressError], or the database's.
//
// ctx ends the wait of a client, and nothing else: once the key is claimed, every step runs under a context of its own, so
// that a client who hangs up leaves neither a key locked nor a charge unrecorded.
func (f *Flow) Create(ctx context.Context, p Purchase) (Answer, error) {
	f.running.Add(1)
	defer f.running.Done()
	ctx, span := f.observe.start(ctx, "purchase")
	defer span.End()
	answer, err := f.create(ctx, p)
	tell(span, purchaseOutcome(answer, err), idempotency.Lease{})
	return answer, err
}

func (f *Flow) create(ctx context.Context, p Purchase) (Answer, error) {
	deadline, err := f.deadline(ctx)
	if err != nil {
		return Answer{}, err
	}
	got, err := f.claimOrder(ctx, p, deadline)
	var busy *idempotency.InProgressError
	if p.Wait > 0 && errors.As(err, &busy) {
		got, err = f.wait(ctx, p, deadline, err)
	}
	if err != nil {
		return Answer{}, err
	}
	if got.Done() {
		return f.replay(ctx, *got.Record)
	}
	if err := ctx.Err(); err != nil { // the client left during the claim; nothing was sent, and nobody waits
		f.release(ctx, got.Lease)
		return Answer{}, &UndecidedError{Why: leftOrLate(err), Err: err}
	}
	return f.conclude(ctx, got.Lease, f.charge(ctx, p, got, deadline))
}

// deadline refuses a request that has too little time left to be worth starting, before it claims anything.
func (f *Flow) deadline(ctx context.Context) (time.Time, error) {
	d, ok := ctx.Deadline()
	if !ok {
		return time.Time{}, errors.New("payment: a request must have a deadline")
	}
	if left := time.Until(d); left < f.timing.Reserve+f.timing.MinCharge {
		return time.Time{}, &UndecidedError{Why: DeadlineOver,
			Err: fmt.Errorf("%s left, %s needed to begin: %w", left, f.timing.Reserve+f.timing.MinCharge, context.DeadlineExceeded)}
	}
	return d, nil
}

func (f *Flow) claim(ctx context.Context, p Purchase, deadline time.Time) (idempotency.Acquired, error) {
	ctx, cancel := f.detached(ctx)
	defer cancel()
	ctx, span := f.observe.start(ctx, "claim")
	defer span.End()
	got, err := f.keys.Acquire(ctx, idempotency.Claim{
		UserID: p.UserID, Key: p.Key, RPC: p.RPC, Request: p.Request,
		PaymentID: NewID(), OrderID: p.OrderID, Amount: p.Amount, Currency: p.Currency, OnePerOrder: f.OnePaymentPerOrder,
		TTL: f.timing.lease(time.Until(deadline)),
	})
	f.observe.claimed(ctx, span, got, err)
	if p.Claimed != nil {
		switch {
		case got.Record != nil:
			p.Claimed(got.Record.PaymentID)
		case err == nil:
			p.Claimed(got.Lease.PaymentID)
		}
	}
	return got, err
}

// charge holds neither a database connection nor a transaction while it waits for the PSP.
func (f *Flow) charge(ctx context.Context, p Purchase, got idempotency.Acquired, deadline time.Time) psp.Result {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(-f.timing.Reserve))
	defer cancel()
	l := got.Lease
	if l.TakenOver() {
		if res, only := f.onlyAsk(ctx, l, got.Record.Age); only {
			return res
		}
	}
	res := f.psp.Charge(ctx, p.charge(l))
	if res.Kind == psp.NotSent && l.TakenOver() {
		res.Kind = psp.Unknown // this request sent nothing, but whoever held the key before may have
	}
	return res
}

// onlyAsk asks for a charge under a key that was held before, in place of sending it once more, when sending could charge again:
// our own records hold its payment already, or the key is older than the PSP's memory. only reports whether that is so.
func (f *Flow) onlyAsk(ctx context.Context, l idempotency.Lease, age time.Duration) (res psp.Result, only bool) {
	_, err := get(ctx, f.db, l.UserID, l.PaymentID)
	switch {
	case errors.Is(err, ErrNotFound) && age < f.timing.PSPKeyRetention:
		return psp.Result{}, false
	case err != nil && !errors.Is(err, ErrNotFound):
		return psp.Result{Kind: psp.Unknown, Err: err}, true
	}
	res = f.psp.LookUp(ctx, idempotency.PSPKey(l.UserID, l.Key), expect(l))
	if res.Kind == psp.NeverSeen {
		return forgotten(age), true
	}
	return res, true
}

// forgotten is a key that the PSP does not know, though it may have charged under it once: a person has to find out.
func forgotten(age time.Duration) psp.Result {
	return psp.Result{Kind: psp.Mismatch, Err: fmt.Errorf("the key is %s old and the PSP does not know it: it may have charged and forgotten", age.Round(time.Second))}
}

// conclude ends a lease by what is known of the charge: final → finish, another purchase's charge → park, all else → release.
func (f *Flow) conclude(ctx context.Context, l idempotency.Lease, res psp.Result) (Answer, error) {
	if !res.Kind.Final() && res.Kind != psp.Mismatch {
		f.release(ctx, l)
		return Answer{}, undecided(res)
	}
	ctx, span := f.observe.start(ctx, "finish")
	defer span.End()
	var answer Answer
	var err error
	if res.Kind == psp.Mismatch {
		answer, err = f.park(ctx, l, mismatch(res))
	} else {
		answer, err = f.finish(ctx, l, res)
	}
	f.observe.finished(ctx, span, l, finishOutcome(res, answer, err))
	return answer, err
}

// release gives the key back when nothing final is known, so that a retry goes in at once. A failure costs the client a wait
// until the lease is over, and no money: it is logged.
func (f *Flow) release(ctx context.Context, l idempotency.Lease) {
	ctx, cancel := f.detached(ctx)
	defer cancel()
	ctx, span := f.observe.start(ctx, "release")
	defer span.End()
	err := f.keys.Release(ctx, l)
	f.observe.finished(ctx, span, l, releaseOutcome(err))
	if err != nil {
		f.log.WarnContext(ctx, "the key could not be released; its lease ends by itself",
			"key", l.Key.Hint(), "lease", l.Token, "error", err)
	}
}

// park puts the key aside for a person and says so loudly. A holder that was taken over parks nothing, and answers by what the
// new one has made of the key.
func (f *Flow) park(ctx context.Context, l idempotency.Lease, reason string) (Answer, error) {
	ctx, cancel := f.detached(ctx)
	defer cancel()
	err := f.keys.Park(ctx, l, reason)
	if errors.Is(err, idempotency.ErrLeaseLost) {
		return f.superseded(ctx, l)
	}
	f.log.ErrorContext(ctx, "payment parked: a person has to look",
		"key", l.Key.Hint(), "user_id", l.UserID, "payment_id", l.PaymentID, "lease", l.Token, "reason", reason, "error", err)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, idempotency.ErrParked
}

// detached bounds a step by itself in place of by the client.
func (f *Flow) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), f.timing.StoreTimeout)
}

func mismatch(res psp.Result) string {
	if res.Err != nil {
		return res.Err.Error()
	}
	return "the PSP holds another charge under this key"
}

func leftOrLate(err error) Undecided {
	if errors.Is(err, context.DeadlineExceeded) {
		return DeadlineOver
	}
	return ClientLeft
}

// undecided names the reason for which a result that is not final ends a request.
func undecided(res psp.Result) *UndecidedError {
	e := &UndecidedError{Why: OutcomeUnknown, RetryAfter: res.RetryAfter, Err: res.Err}
	switch {
	case res.Kind == psp.NotSent && res.NotSent == psp.BulkheadFull:
		e.Why = Overloaded
	case res.Kind == psp.NotSent && (res.NotSent == psp.DeadlineTooLow || res.NotSent == psp.CallerLeft):
		e.Why = DeadlineOver
	case res.Kind == psp.NotSent:
		e.Why = PSPUnavailable
	case errors.Is(res.Err, context.DeadlineExceeded):
		e.Why = DeadlineOver
	}
	return e
}
