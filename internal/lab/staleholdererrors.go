package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	gatewaysim "chargeonce/gateway-sim"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/psp"
)

// pspErrors shows what becomes of a key when the PSP declines, and when it fails.
func (h *holders) pspErrors(ctx context.Context, r *Report) error {
	h.lease = unhurried // it must not end by itself before the key is asked for again
	t := Table{Title: "Two kinds of PSP error", Columns: []string{"the PSP answers", "the key is", "the same key again, document", "here"}}
	declined, err := h.decline(ctx)
	if err != nil {
		return err
	}
	t.add("402, declined", "done, with the 402 stored", "402, the same", declined)
	kept, released, err := h.fail(ctx)
	if err != nil {
		return err
	}
	t.add("503", "left as it is", "409 until the lease is over", kept)
	t.add("", "released", "goes in at once", released)
	r.Tables = append(r.Tables, t)
	r.same("after a decline, the same key again", "402 replayed", declined)
	r.same("after a failure, the key left as it is", "409", kept)
	r.same("after a failure, the key released", "lease 2, succeeded", released)
	charges, err := h.site.psp.sim.ChargesOf(ctx, "failed")
	if err != nil {
		return err
	}
	r.equal("charges after a failure and a retry", 1, int64(len(charges)))
	return nil
}

// decline stores the PSP's verdict and asks for the key again.
func (h *holders) decline(ctx context.Context) (string, error) {
	got, err := h.claim(ctx, "declined")
	if err != nil {
		return "", err
	}
	res := h.charge(ctx, got.Lease, "tok_declined")
	if !res.Kind.Final() {
		return "", fmt.Errorf("a decline is %s: %w", res.Kind, res.Err)
	}
	if err := mysql.WithTx(ctx, h.db.DB, func(tx mysql.Querier) error {
		return h.keys.Finish(ctx, tx, got.Lease, idempotency.Stored{Code: http.StatusPaymentRequired}, true)
	}); err != nil {
		return "", err
	}
	again, err := h.claim(ctx, "declined")
	if err != nil || !again.Done() {
		return "claimed anew", err
	}
	return fmt.Sprintf("%d replayed", again.Record.Stored.Code), nil
}

// fail has the PSP fail once, and asks for the key again before it was released, and after.
func (h *holders) fail(ctx context.Context) (kept, released string, err error) {
	if err := h.site.psp.setFaults(ctx, gatewaysim.Faults{Rules: []gatewaysim.Rule{
		{Fault: gatewaysim.ErrorAnswer, Status: http.StatusServiceUnavailable, Match: onCharges(), Count: 1},
	}}); err != nil {
		return "", "", err
	}
	got, err := h.claim(ctx, "failed")
	if err != nil {
		return "", "", err
	}
	if res := h.charge(ctx, got.Lease, "tok_visa"); res.Kind.Final() {
		return "", "", fmt.Errorf("a 503 is %s", res.Kind)
	}
	var busy *idempotency.InProgressError
	switch _, err := h.claim(ctx, "failed"); {
	case errors.As(err, &busy):
		kept = fmt.Sprint(http.StatusConflict)
	case err != nil:
		return "", "", err
	default:
		kept = "claimed"
	}
	if err := h.keys.Release(ctx, got.Lease); err != nil {
		return "", "", err
	}
	again, err := h.claim(ctx, "failed")
	if err != nil {
		return "", "", err
	}
	res := h.charge(ctx, again.Lease, "tok_visa")
	if res.Kind == psp.Succeeded {
		err = h.keys.Release(ctx, again.Lease) // this shows no finish
	}
	return kept, fmt.Sprintf("lease %d, %s", again.Lease.Token, res.Kind), err
}
