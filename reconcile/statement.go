package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chargeonce/internal/idempotency"
	"chargeonce/internal/mysql"
	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// maxEmptyPages bounds how many empty pages in a row are taken for a PSP that filters, and not for one that is at fault.
const maxEmptyPages = 100

// statement compares the PSP's charges with our payments, both ways, in the stretch of time from Overlap before the mark to Quiet
// before now. After each page that is dealt with it moves the mark, so that a pass that is cut goes on from there.
//
// It reads a stretch again, and asks by id before it reports, so that neither a late webhook nor a clock that is some seconds off
// makes a false alarm.
func (p *pass) statement(ctx context.Context) error {
	mark, err := p.mark(ctx, statementMark)
	if err != nil {
		return err
	}
	p.count(func(r *Report) { r.Statement.Mark = mark })
	var from time.Time // zero: from the beginning
	if !mark.IsZero() {
		from = mark.Add(-p.cfg.Overlap)
	}
	until := p.now.Add(-p.cfg.Quiet)
	if !from.Before(until) {
		return nil
	}
	seen := map[string]bool{} // the charge ids that the statement showed in this pass
	began, cursor, empty := from, "", 0
	p.statementFrom = from
	for !p.over(ctx) {
		page, err := p.gateway.Statement(ctx, began, cursor, p.cfg.PageSize)
		if err != nil {
			p.statementUnread(ctx, err)
			return nil
		}
		if cursor != "" && page.NextCursor == cursor {
			return errors.New("the PSP's statement goes round in a circle")
		}
		charges, last := upTo(page, until)
		to := until
		switch {
		case last:
		case len(charges) > 0:
			to, empty = charges[len(charges)-1].CreatedAt, 0
		default: // only an empty cursor ends the statement: what comes next is not read yet, so the mark stays
			if empty++; empty > maxEmptyPages {
				return errors.New("the PSP's statement gives empty pages and no end")
			}
			cursor = page.NextCursor
			continue
		}
		for _, c := range charges {
			seen[c.ID] = true
		}
		whole, err := p.comparePage(ctx, charges, seen, from, to)
		if err != nil || !whole {
			return err
		}
		if err := p.moveMark(ctx, statementMark, to); err != nil {
			return err
		}
		p.pageDone(charges, to, until)
		if last {
			return nil
		}
		from, cursor = to, page.NextCursor
	}
	return nil
}

// pageDone counts a page that was dealt with, and moves the progress on: its share is one of time.
func (p *pass) pageDone(charges []psp.Charge, to, until time.Time) {
	now := p.counted(func(r *Report) {
		r.Statement.Read += len(charges)
		r.Statement.Mark = later(r.Statement.Mark, to.Truncate(time.Millisecond))
	})
	if p.statementFrom.IsZero() && len(charges) > 0 {
		p.statementFrom = charges[0].CreatedAt
	}
	p.tell(Progress{Phase: phaseStatement, Done: now.Statement.Read, Share: between(p.statementFrom, to, until)})
}

// statementUnread notes that the PSP did not give its statement, retries included. Then the pass has not done its work, though every
// other call was answered; unless it was the pass itself that was stopped.
func (p *pass) statementUnread(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	p.gateway.gone.Store(true)
	p.log.WarnContext(ctx, "the PSP's statement could not be read; the next pass goes on", "error", err)
}

// upTo cuts a page off after until, and says whether it was the last one that has something up to there.
func upTo(page psp.Page, until time.Time) (charges []psp.Charge, last bool) {
	for i, c := range page.Charges {
		if c.CreatedAt.After(until) {
			return page.Charges[:i], true
		}
	}
	return page.Charges, page.NextCursor == ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// comparePage deals with the charges of one page, and with our payments of the time from from (exclusive) to to. It reports
// whether all of it was dealt with: not, when the PSP fell silent or the pass was stopped meanwhile.
func (p *pass) comparePage(ctx context.Context, charges []psp.Charge, seen map[string]bool, from, to time.Time) (whole bool, err error) {
	ours, err := p.paymentsOf(ctx, charges)
	if err != nil {
		return false, err
	}
	var open openCount
	err = each(ctx, p, charges, func(ctx context.Context, c psp.Charge) error {
		row, ok := ours[c.ID]
		if !ok {
			return p.orLocked(ctx, &open, p.missingHere(ctx, c))
		}
		if agree(row, c) {
			return nil
		}
		return p.orLocked(ctx, &open, p.disagree(ctx, c.ID, &open))
	})
	if err != nil || p.over(ctx) {
		return false, err
	}
	if err := p.missingThere(ctx, seen, from, to, &open); err != nil || p.over(ctx) {
		return false, err
	}
	return open.n.Load() == 0, nil
}

// orLocked takes an error that came of a row which somebody keeps locked for a charge that is still open: the page is read again by
// the next pass, and the rest of it need not wait.
func (p *pass) orLocked(ctx context.Context, open *openCount, err error) error {
	if !mysql.Unavailable(err) || mysql.Away(ctx, p.cfg.DB, err) {
		return err
	}
	p.log.WarnContext(ctx, "a charge of the statement could not be dealt with now", "error", err)
	open.n.Add(1)
	return nil
}

// agree reports whether our row says the same as the PSP's charge.
func agree(row payment.Payment, c psp.Charge) bool {
	return samePurchase(row, c) && string(row.Status) == c.Status
}

func samePurchase(row payment.Payment, c psp.Charge) bool {
	return row.UserID == c.Metadata.UserID && row.OrderID == c.Metadata.OrderID && row.Amount == c.Amount && row.Currency == c.Currency
}

// missingHere writes a charge that has no payment, when a key of ours made it. A charge that names no key of ours is not
// ours to write: it may be another system's, or another environment's, on the same account.
func (p *pass) missingHere(ctx context.Context, c psp.Charge) error {
	m := c.Metadata
	if m.UserID <= 0 || m.PaymentID == "" {
		p.find(ctx, findingOf(Orphan, c, "the charge names no user and payment of ours"))
		return nil
	}
	_, err := p.flow.Keys().ByPayment(ctx, p.cfg.DB, m.UserID, m.PaymentID)
	if errors.Is(err, idempotency.ErrNotFound) {
		p.find(ctx, findingOf(Orphan, c, "no idempotency key of ours made the charge, and no payment records it"))
		return nil
	}
	if err != nil {
		return err
	}
	did, ok, err := p.apply(ctx, c)
	if ok && did.Changed {
		p.count(func(r *Report) { r.Statement.Written++ })
	}
	return err
}

// disagree looks again at a charge that our row does not agree with: the page and the row were read at different times. News that
// a lost webhook would have told is applied; anything else is reported and left as it is.
func (p *pass) disagree(ctx context.Context, chargeID string, open *openCount) error {
	c, err := p.gateway.Get(ctx, chargeID)
	if errors.Is(err, psp.ErrNoSuchCharge) {
		p.find(ctx, Finding{Kind: MissingThere, ChargeID: chargeID, Detail: "the PSP's statement shows the charge and its look-up does not"})
		return nil
	}
	if err != nil {
		open.n.Add(1)
		return nil
	}
	rows, err := p.paymentsOf(ctx, []psp.Charge{c})
	if err != nil {
		return err
	}
	row := rows[c.ID]
	switch {
	case agree(row, c):
		return nil
	case samePurchase(row, c) && news(row.Status, payment.Status(c.Status)):
		did, ok, err := p.apply(ctx, c)
		if ok && did.Changed {
			p.count(func(r *Report) { r.Statement.Raised++ })
		}
		return err
	}
	p.find(ctx, findingOf(Differs, c, fmt.Sprintf(
		"ours: user %d, order %s, %d %s, %s; the PSP's: user %d, order %s, %d %s, %s",
		row.UserID, row.OrderID, row.Amount, row.Currency, row.Status,
		c.Metadata.UserID, c.Metadata.OrderID, c.Amount, c.Currency, c.Status)))
	return nil
}

// news reports whether a charge can have gone from one status to the other at the PSP: then its event is late or lost, and
// our row is not wrong but old.
func news(from, to payment.Status) bool {
	switch from {
	case payment.Pending:
		return to != payment.Pending
	case payment.Succeeded:
		return to == payment.Canceled || to == payment.Refunded
	case payment.Failed, payment.Canceled, payment.Refunded:
	}
	return false
}

// missingThere asks by id for our payments of a stretch of time that the statement did not show. Most that it finds were
// charged shortly before and written late.
func (p *pass) missingThere(ctx context.Context, seen map[string]bool, from, to time.Time, open *openCount) error {
	var after payment.Payment
	after.CreatedAt = from
	for !p.over(ctx) {
		rows, err := p.paymentsBetween(ctx, after, to)
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1]
		var unseen []payment.Payment
		for _, row := range rows {
			if !seen[row.ChargeID] {
				unseen = append(unseen, row)
			}
		}
		if err := each(ctx, p, unseen, func(ctx context.Context, row payment.Payment) error {
			_, err := p.gateway.Get(ctx, row.ChargeID)
			switch {
			case errors.Is(err, psp.ErrNoSuchCharge):
				p.find(ctx, Finding{Kind: MissingThere, UserID: row.UserID, PaymentID: row.ID, ChargeID: row.ChargeID,
					Detail: "a payment whose charge the PSP does not know"})
			case err != nil:
				open.n.Add(1)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
