package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// hearing is what the app hears in one call, and tells in the timeline.
type hearing struct {
	story *story
	from  string
	heard []string // one entry per try; those that repeat the one before are left out
}

func (h *hearing) add(text string) {
	if n := len(h.heard); n == 0 || h.heard[n-1] != text {
		h.heard = append(h.heard, text)
	}
}

func (h *hearing) text() string { return strings.Join(h.heard, " → ") }

// attempt is the client's hook.
func (h *hearing) attempt(_ context.Context, a client.Attempt) {
	if a.Err == nil {
		return // see success, which knows more
	}
	status := statusOf(a.Err)
	h.add(status)
	who, text := h.from+" → app", status
	switch {
	case errors.Is(a.Err, context.Canceled):
		return // nobody was there to hear it
	case a.Err.Reason == "":
		who, text = "app", status+" at "+h.from
	}
	if a.Err.Reason != "" {
		text += " " + a.Err.Reason
	}
	if a.Err.DeclineCode != "" {
		text += " (" + a.Err.DeclineCode + ")"
	}
	text += ": " + strings.ToLower(a.Err.NextAction.String())
	if !a.Last {
		text += fmt.Sprintf(", in %d ms", a.Wait.Round(time.Millisecond).Milliseconds())
	}
	h.story.tell(who, "%s", text)
}

func (h *hearing) success(o *client.Outcome) {
	status := codes.OK.String()
	if o.HTTPStatus != 0 {
		status = fmt.Sprint(o.HTTPStatus)
	}
	h.add(status + replayed(o.Replayed))
	h.story.tell(h.from+" → app", "%s%s, payment %s %s", status, replayed(o.Replayed), o.Payment.GetId(),
		strings.ToLower(paymentsv1.Payment_Status_name[int32(o.Payment.GetStatus())]))
}

func replayed(is bool) string {
	if is {
		return " replayed"
	}
	return ""
}

// statusOf words what one try ended with.
func statusOf(e *client.Error) string {
	switch {
	case e.HTTPStatus != 0:
		return fmt.Sprint(e.HTTPStatus) + replayed(e.Replayed)
	case e.TimedOut():
		return "time-out"
	case errors.Is(e, context.Canceled):
		return "left"
	case e.GRPCCode != codes.OK && e.Reason != "":
		return e.GRPCCode.String() + replayed(e.Replayed)
	}
	return "no answer"
}
