package torture

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/api/payments/v1/client"
)

// slot names an idempotency key: the same characters of another user are another key.
type slot struct {
	user int64
	key  string
}

// purchase is what a key was first sent with.
type purchase struct {
	slot
	order    string
	amount   int64
	currency string
	token    string
}

func (p purchase) request() *paymentsv1.CreatePaymentRequest {
	return &paymentsv1.CreatePaymentRequest{OrderId: p.order, Amount: p.amount, Currency: p.currency, PaymentMethod: p.token}
}

// act is what a client does with one request.
type act string

const (
	actPay     act = "pay"
	actMisuse  act = "misuse" // the key with another amount
	actForeign act = "get another's"
	actGet     act = "get"
	actList    act = "list"
)

// op is one request and what came of it, as its client saw it.
type op struct {
	slot
	client       int
	act          act
	server, face string
	called       time.Time
	returned     time.Time
	answer       answer
}

// answer is what a client was told.
type answer struct {
	// final is a final answer in a form that can be compared; empty when there is none.
	final string
	// paymentID is the payment of a final answer that has one.
	paymentID string
	// reason is the service's, or "no answer", "time-out", "left", or "ok" for a payment.
	reason string
	action paymentsv1.NextAction
	// heard says that the service itself answered.
	heard bool
	// replayed says that it said so.
	replayed bool
}

func (a answer) String() string {
	text := a.reason
	if a.final != "" {
		text = a.final
	}
	if a.replayed {
		text += " (replayed)"
	}
	return text
}

// answerOf reads what [client.Client.Pay] or a read returned.
func answerOf(p *paymentsv1.Payment, replayed bool, err error) answer {
	if err == nil {
		return answer{
			final: fmt.Sprintf("%s %s %d %s %s %s %s", p.GetStatus(), p.GetId(), p.GetAmount(), p.GetCurrency(), p.GetOrderId(),
				p.GetCreateTime().AsTime().Format(clock), p.GetUpdateTime().AsTime().Format(clock)),
			paymentID: p.GetId(), reason: "ok", heard: true, replayed: replayed,
		}
	}
	var failed *client.Error
	if !errors.As(err, &failed) {
		return answer{reason: "left", action: paymentsv1.NextAction_RETRY_SAME_KEY}
	}
	a := answer{reason: failed.Reason, action: failed.NextAction, heard: failed.Reason != "", replayed: failed.Replayed}
	switch {
	case a.reason != "":
	case failed.TimedOut():
		a.reason = "time-out"
	default:
		a.reason = "no answer"
	}
	if a.heard && a.action != paymentsv1.NextAction_RETRY_SAME_KEY && finalReasons[a.reason] {
		a.final = strings.TrimSpace(a.reason + " " + failed.DeclineCode + " " + failed.PaymentID)
	}
	return a
}

// finalReasons are the refusals that end a purchase.
var finalReasons = map[string]bool{
	"CARD_DECLINED": true, "PSP_REJECTED": true, "PAYMENT_ABANDONED": true, "ORDER_ALREADY_PAID": true,
}

// history is all that clients did and saw. It is safe for use by many goroutines.
type history struct {
	mu        sync.Mutex
	ops       []op
	purchases map[slot]purchase
	order     []slot           // in which they were begun
	paid      map[string]slot  // by payment id
	payments  []string         // payment ids, in the order in which they were learnt
	open      map[slot]bool    // without a final answer yet
	alarms    []violation      // what a client found wrong by itself
	reasons   map[string]int64 // answers by reason
}

func newHistory() *history {
	return &history{purchases: map[slot]purchase{}, paid: map[string]slot{}, open: map[slot]bool{}, reasons: map[string]int64{}}
}

// begin notes a purchase. It is false when the key was used by that user before.
func (h *history) begin(p purchase) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, used := h.purchases[p.slot]; used {
		return false
	}
	h.purchases[p.slot] = p
	h.order = append(h.order, p.slot)
	h.open[p.slot] = true
	return true
}

func (h *history) add(o op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
	h.reasons[string(o.act)+": "+o.answer.reason]++
	if o.act == actPay && o.answer.final != "" {
		delete(h.open, o.slot)
		if id := o.answer.paymentID; id != "" {
			if _, known := h.paid[id]; !known {
				h.paid[id] = o.slot
				h.payments = append(h.payments, id)
			}
		}
	}
}

// alarm notes a violation that a client saw.
func (h *history) alarm(v violation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarms = append(h.alarms, v)
}

// pick returns one of the purchases that were begun, by a random number.
func (h *history) pick(n uint64) (purchase, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return purchase{}, false
	}
	return h.purchases[h.order[n%uint64(len(h.order))]], true
}

// payment returns the id of one of the payments that were learnt of, and whose it is.
func (h *history) payment(n uint64) (id string, owner int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.payments) == 0 {
		return "", 0, false
	}
	id = h.payments[n%uint64(len(h.payments))]
	return id, h.paid[id].user, true
}

// slotOf returns whose payment an id is, as far as the clients know.
func (h *history) slotOf(paymentID string) slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paid[paymentID]
}

// paymentOf returns the id of the payment that a purchase was told of, if any.
func (h *history) paymentOf(s slot) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.ops) - 1; i >= 0; i-- {
		if o := &h.ops[i]; o.slot == s && o.answer.paymentID != "" {
			return o.answer.paymentID
		}
	}
	return ""
}
