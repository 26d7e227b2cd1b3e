package torture

import (
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	paymentsv1 "chargeonce/api/payments/v1"
)

// checkAnswers holds each answer by itself against the contract: promises 4 and 8.
func (b *books) checkAnswers(v *verdicts) {
	for _, o := range b.ops {
		a := o.answer
		retry := a.action == paymentsv1.NextAction_RETRY_SAME_KEY && a.final == ""
		switch {
		case a.reason == "INTERNAL":
			v.add(0, o.slot, "server %s failed by itself: INTERNAL", o.server)
		case o.act == actPay && a.final == "" && !retry:
			v.add(4, o.slot, "%s, which is neither final nor says retry", a)
		case o.act == actPay && a.paymentID != "" && !b.boughtWhatItAsked(o):
			v.add(8, o.slot, "was told of another purchase: %s", a)
		case o.act == actMisuse && !retry && a.reason != "IDEMPOTENCY_KEY_REUSED" && a.reason != "ORDER_ALREADY_PAID":
			v.add(4, o.slot, "the key was used with another amount, and answered %s", a)
		case o.act == actForeign && !retry && a.reason != "PAYMENT_NOT_FOUND":
			v.add(8, o.slot, "another user's payment: %s", a)
		case o.act == actGet && !retry && a.reason != "ok":
			v.add(4, o.slot, "its own payment: %s", a)
		}
	}
}

// boughtWhatItAsked reports whether a payment in an answer is that of the purchase that was sent.
func (b *books) boughtWhatItAsked(o op) bool {
	return strings.Contains(o.answer.final, " "+b.purchases[o.slot].order+" ")
}

// refusalsOf are the refusals that a token can meet. An abandoned purchase, or one whose order is paid, can have any token.
var refusalsOf = map[string]string{
	"tok_declined":           "CARD_DECLINED do_not_honor",
	"tok_insufficient_funds": "CARD_DECLINED insufficient_funds",
	"tok_rejected":           "PSP_REJECTED",
	"tok_pending_fails":      "CARD_DECLINED expired",
}

// checkTruth holds the final answers against the PSP's ledger: promises 1 and 4.
func (b *books) checkTruth(v *verdicts) {
	charges := map[string]charge{} // by payment id
	for _, c := range b.charges {
		charges[c.Metadata["payment_id"]] = c
	}
	payment := map[slot]string{}
	for _, k := range b.keys {
		payment[k.slot] = k.payment
	}
	for _, o := range b.ops {
		a := o.answer
		if o.act != actPay || a.final == "" {
			continue
		}
		if a.reason == "ok" {
			if _, charged := charges[a.paymentID]; !charged {
				v.add(4, o.slot, "answered as charged (%s), and the PSP has no such charge", a.final)
			}
			continue
		}
		if c, charged := charges[payment[o.slot]]; charged && c.Status == "succeeded" {
			v.add(4, o.slot, "answered %s, and charged %s", a.final, c.ID)
		}
		if a.reason == "CARD_DECLINED" || a.reason == "PSP_REJECTED" {
			// The code is left out when the news of a failed charge came without it.
			token := b.purchases[o.slot].token
			if want := refusalsOf[token]; a.final != want && (a.final != a.reason || !strings.HasPrefix(want, a.reason)) {
				v.add(4, o.slot, "paid with %s and answered %q", token, a.final)
			}
		}
	}
}

// onlyUndecided are the answers that only a key without its final answer can give.
var onlyUndecided = map[string]bool{
	"IDEMPOTENCY_KEY_IN_PROGRESS": true, "ORDER_IN_PROGRESS": true, "PSP_OUTCOME_UNKNOWN": true, "PSP_UNAVAILABLE": true,
}

// keyModel is a key as its clients may think of it: undecided (""), and then one final answer for ever.
var keyModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, _, output any) (bool, any) {
		now, a := state.(string), output.(answer)
		switch {
		case a.final != "":
			return now == "" || now == a.final, a.final
		case onlyUndecided[a.reason]:
			return now == "", now
		}
		return true, now // it says nothing of the key
	},
}

// linearBound bounds the search for an order of one key's requests.
const linearBound = 10 * time.Second

// checkLinearizable looks, key by key, for an order of the requests that explains all answers: promise 4.
func (b *books) checkLinearizable(v *verdicts) {
	byKey := map[slot][]porcupine.Operation{}
	for _, o := range b.ops {
		if o.act == actPay && o.answer.heard {
			byKey[o.slot] = append(byKey[o.slot], porcupine.Operation{
				ClientId: o.client, Call: o.called.UnixNano(), Return: o.returned.UnixNano(), Output: o.answer,
			})
		}
	}
	for s, ops := range byKey {
		switch porcupine.CheckOperationsTimeout(keyModel, ops, linearBound) {
		case porcupine.Ok:
		case porcupine.Illegal:
			v.add(4, s, "no order of its requests explains its answers")
		case porcupine.Unknown:
			v.add(0, s, "its history could not be searched within %s", linearBound)
		}
	}
}
