package psp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// chargeBody is the body of POST /charges.
type chargeBody struct {
	Amount        int64             `json:"amount"`
	Currency      string            `json:"currency"`
	PaymentMethod string            `json:"payment_method"`
	Description   string            `json:"description"`
	Metadata      map[string]string `json:"metadata"`
}

// Charge asks for one charge and says what is known of it afterwards. It ends before ctx's deadline, which the caller has
// already cut by what it needs to record the outcome. Asked again with the same request, it never charges twice: the key sees
// to that, at the PSP.
func (c *Client) Charge(ctx context.Context, req ChargeRequest) Result {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	body, err := json.Marshal(chargeBody{req.Amount, req.Currency, req.PaymentMethod, req.Description, map[string]string{
		"user_id":    strconv.FormatInt(req.Metadata.UserID, 10),
		"payment_id": req.Metadata.PaymentID,
		"order_id":   req.Metadata.OrderID,
	}})
	if err = errors.Join(err, checkKey(req.Key)); err != nil {
		return unsent(err)
	}
	t := &trip{}
	post := &series{call: call{op: opCharge, method: http.MethodPost, path: "charges", body: body, key: req.Key, want: req.Expect()}}
	ask := lookUpCall(req.Key, req.Expect())
	for { // At most MaxAttempts times: again counts what post has made.
		v := c.run(ctx, t, post)
		if v.askByKey {
			return t.result(c.settle(ctx, t, ask, v))
		}
		if v.kind.refusal() && (req.MayExist || t.requests > 1) {
			return t.result(c.confirm(ctx, t, ask, v))
		}
		if v.kind != StillWorking {
			return t.result(v)
		}
		v = c.poll(ctx, t, ask, v)
		if v.kind != NeverSeen {
			return t.result(v)
		}
		// The other request ended without leaving a trace, so this one may do the work.
		v.reason = NeverSeen.String()
		if !c.again(ctx, t, post, v) {
			v.kind = Unknown
			return t.result(v)
		}
	}
}

// poll asks by key, while time is left, what became of a key that another request works on. These look-ups are no attempts.
// It returns a verdict on the key; NeverSeen; or StillWorking when nothing better was learnt.
func (c *Client) poll(ctx context.Context, t *trip, ask call, working verdict) verdict {
	for n := 0; ; n++ {
		wait := c.backoff(n, working.retryAfter)
		if !c.fits(ctx, wait) {
			return working
		}
		if err := sleep(ctx, wait); err != nil {
			t.note(ask.op, n+1, err)
			return working
		}
		switch v := c.run(ctx, t, &series{call: ask}); {
		case v.kind == StillWorking:
			working = v
		case v.answered:
			return v
		default:
			return working
		}
	}
}

// settle asks by key after the PSP said that the key was used with other parameters. What the PSP holds under it decides: a charge,
// ours or not, or a refusal, after which the key will never charge anything. Else nothing is known.
func (c *Client) settle(ctx context.Context, t *trip, ask call, mismatch verdict) verdict {
	v := c.run(ctx, t, &series{call: ask})
	if v.kind.Final() || v.kind == Mismatch {
		return v
	}
	mismatch.retryAfter = v.retryAfter
	return mismatch
}

// confirm asks by key before a refusal is believed that follows an attempt which may have charged. A PSP that keeps its contract
// refuses no key that it has charged; but a refusal that is stored is told to the client for good, and the look-up costs one
// request. Unless it says the same, or shows a charge, the outcome is unknown.
func (c *Client) confirm(ctx context.Context, t *trip, ask call, refusal verdict) verdict {
	v := c.run(ctx, t, &series{call: ask})
	if v.kind.Final() || v.kind == Mismatch {
		return v
	}
	t.note(ask.op, 0, fmt.Errorf("%s by %s, which the look-up does not confirm: %s", refusal.kind, opCharge, v.kind))
	return verdict{kind: Unknown, retryAfter: v.retryAfter, reason: "unconfirmed"}
}

// bound gives a context without a deadline one, so that nothing waits for ever.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.MaxCall)
}

var errInvalidRequest = errors.New("invalid request")

// unsent is the result for a request that cannot be sent as it stands.
func unsent(err error) Result {
	return Result{Kind: NotSent, NotSent: InvalidRequest, Err: fmt.Errorf("psp: %w: %w", errInvalidRequest, err)}
}

// checkKey holds the PSP's rule for keys. One that no header can carry must not turn into a charge without a key.
func checkKey(key string) error {
	if key == "" || len(key) > 255 || !isFieldValue(key) {
		return errors.New("key: want 1 to 255 printable ASCII characters")
	}
	return nil
}

// isFieldValue reports whether s is made of printable ASCII characters, without spaces.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
