package torture

import (
	"fmt"
	"slices"
)

// violation is a promise that was not kept (design.md, "Promises"), or with promise 0 something else that must not be.
type violation struct {
	promise int
	slot    slot // zero when it is about no one key
	text    string
}

func (v violation) String() string {
	text := v.text
	if v.slot.key != "" {
		text = fmt.Sprintf("user %d, key %s: %s", v.slot.user, v.slot.key, text)
	}
	if v.promise != 0 {
		text = fmt.Sprintf("promise %d: %s", v.promise, text)
	}
	return text
}

// maxPerPromise is how many violations of one promise are kept: one that fails often fails in one way.
const maxPerPromise = 10

// verdicts collects violations.
type verdicts struct {
	found []violation
	count map[int]int
}

func (v *verdicts) add(promise int, s slot, format string, args ...any) {
	v.take(violation{promise: promise, slot: s, text: fmt.Sprintf(format, args...)})
}

func (v *verdicts) take(found ...violation) {
	for _, one := range found {
		if v.count == nil {
			v.count = map[int]int{}
		}
		if v.count[one.promise]++; v.count[one.promise] <= maxPerPromise {
			v.found = append(v.found, one)
		}
	}
}

// check holds the books against the promises. Promises 7 and 8 were looked at while the run went on, and 9 is that all of this
// holds though processes were killed.
func (b *books) check() []violation {
	var v verdicts
	slotOf := b.slotsByPayment()
	b.checkCharges(&v, slotOf)
	b.checkPayments(&v, slotOf)
	b.checkKeys(&v)
	b.checkAnswers(&v)
	b.checkTruth(&v)
	b.checkLinearizable(&v)
	b.checkAudit(&v)
	if b.cfg.Guard {
		b.checkOrders(&v)
	}
	slices.SortStableFunc(v.found, func(x, y violation) int { return x.promise - y.promise })
	return v.found
}

func (b *books) slotsByPayment() map[string]slot {
	out := map[string]slot{}
	for _, k := range b.keys {
		out[k.payment] = k.slot
	}
	return out
}

// checkCharges holds the PSP's ledger against promises 1 and 2.
func (b *books) checkCharges(v *verdicts, slotOf map[string]slot) {
	rows := map[string][]paymentRow{}
	for _, p := range b.payments {
		rows[p.charge] = append(rows[p.charge], p)
	}
	byKey, byPayment := map[string]int{}, map[string]int{}
	for _, c := range b.charges {
		s := slotOf[c.Metadata["payment_id"]]
		if byKey[c.IdempotencyKey]++; byKey[c.IdempotencyKey] == 2 {
			v.add(1, s, "the PSP has charged twice under its key %s", c.IdempotencyKey)
		}
		if byPayment[c.Metadata["payment_id"]]++; byPayment[c.Metadata["payment_id"]] == 2 {
			v.add(1, s, "the PSP has charged twice for payment %s", c.Metadata["payment_id"])
		}
		if c.Status == "refunded" || c.Status == "canceled" {
			v.add(1, s, "charge %s is %s, and nobody has asked for that", c.ID, c.Status)
		}
		found := rows[c.ID]
		if len(found) != 1 {
			v.add(2, s, "charge %s (%s, %d %s) has %d payments", c.ID, c.Status, c.Amount, c.Currency, len(found))
			continue
		}
		p := found[0]
		if p.amount != c.Amount || p.currency != c.Currency || p.order != c.Metadata["order_id"] || fmt.Sprint(p.user) != c.Metadata["user_id"] {
			v.add(2, s, "charge %s is %d %s for order %s of user %s, and its payment %d %s for order %s of user %d",
				c.ID, c.Amount, c.Currency, c.Metadata["order_id"], c.Metadata["user_id"], p.amount, p.currency, p.order, p.user)
		}
		if p.status != c.Status {
			v.add(2, s, "charge %s is %s at the PSP, and %s here", c.ID, c.Status, p.status)
		}
	}
}

// checkPayments holds the payments against promise 3.
func (b *books) checkPayments(v *verdicts, slotOf map[string]slot) {
	charged := map[string]bool{}
	for _, c := range b.charges {
		charged[c.ID] = true
	}
	for _, p := range b.payments {
		if !charged[p.charge] {
			v.add(3, slotOf[p.id], "payment %s has no charge: the PSP does not know %s", p.id, p.charge)
		}
	}
}

// checkKeys holds the keys against promise 6: reconciliation has ended them all, and none needs a person, since no fault makes the PSP
// lie.
func (b *books) checkKeys(v *verdicts) {
	for _, k := range b.keys {
		switch k.status {
		case "processing":
			v.add(6, k.slot, "still processing after reconciliation")
		case "parked":
			v.add(6, k.slot, "parked: %s", k.parkedFor.String)
		}
		if _, known := b.purchases[k.slot]; !known {
			v.add(8, k.slot, "a key that no client has sent")
		}
	}
	for s := range b.open {
		v.add(6, s, "its client never learnt the outcome")
	}
}

// checkOrders holds the ledger against promise 10.
func (b *books) checkOrders(v *verdicts) {
	paid := map[string][]string{}
	slotOf := b.slotsByPayment()
	for _, c := range b.charges {
		if c.Status == "failed" {
			continue
		}
		order := c.Metadata["user_id"] + " " + c.Metadata["order_id"]
		paid[order] = append(paid[order], c.ID)
		if len(paid[order]) == 2 {
			v.add(10, slotOf[c.Metadata["payment_id"]], "order %s is paid twice: %v", c.Metadata["order_id"], paid[order])
		}
	}
}
