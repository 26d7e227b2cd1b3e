package server

import (
	"context"
	"database/sql"
	"log/slog"
	"runtime/debug"
	"sync"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/idempotency"
	"chargeonce/internal/payment"
)

// service is the RPCs. Its requests are authenticated and valid.
type service struct {
	paymentsv1.UnimplementedPaymentServiceServer

	db    *sql.DB
	flow  *payment.Flow
	pages pages
	log   *slog.Logger
	// readOnly says whether new purchases are taken.
	readOnly *readOnly
	// unattended counts the purchases that go on though nobody waits for them any more.
	unattended sync.WaitGroup
}

// CreatePayment takes the purchase through the flow.
func (s *service) CreatePayment(ctx context.Context, req *paymentsv1.CreatePaymentRequest) (*paymentsv1.Payment, error) {
	c := callOf(ctx)
	key, err := idempotency.ParseKey(idempotencyKeys(ctx))
	if err != nil {
		return nil, err
	}
	c.keyHint = key.Hint()
	purchase := payment.Purchase{
		UserID: c.userID, Key: key, RPC: paymentsv1.PaymentService_CreatePayment_FullMethodName, Request: req,
		OrderID: req.GetOrderId(), Amount: req.GetAmount(), Currency: req.GetCurrency(),
		PaymentMethod: req.GetPaymentMethod(), Description: req.GetDescription(),
		Claimed: func(paymentID string) { c.paymentID.Store(&paymentID) },
	}
	create := s.replayOnly
	if !s.readOnly.is.Load() {
		create, purchase.Wait = s.flow.Create, s.wait(ctx)
	}
	answer, err := s.attended(ctx, func(ctx context.Context) (payment.Answer, error) { return create(ctx, purchase) })
	if err != nil {
		return nil, err
	}
	return s.reply(ctx, answer)
}

// attended runs the flow and waits for it until ctx ends. What the flow has begun by then it ends by itself, so the caller is
// told at the deadline that the outcome is unknown, however slow the database is.
func (s *service) attended(ctx context.Context, flow func(context.Context) (payment.Answer, error)) (payment.Answer, error) {
	type result struct {
		answer payment.Answer
		err    error
	}
	done := make(chan result, 1)
	slot := callOf(ctx).slot
	slot.keep()
	s.unattended.Go(func() {
		defer slot.leave()
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = &panicError{value: v, stack: debug.Stack()}
			}
			done <- r
		}()
		r.answer, r.err = flow(ctx)
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done: // both were ready
		return r.answer, r.err
	default:
		s.unattended.Go(func() { s.tellLate(ctx, (<-done).err) })
		return payment.Answer{}, ctx.Err()
	}
}

// tellLate logs what became of a purchase that ended after its caller was answered: else a panic, or a charge that could not be recorded,
// would be known to nobody.
func (s *service) tellLate(ctx context.Context, err error) {
	if err == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	p := classify(ctx, err)
	s.log.LogAttrs(ctx, levelOf(p), "a purchase ended after its caller's time", lineOf(callOf(ctx), p, p.document().Reason)...)
}

// reply answers with what is stored, the first time as every time after.
func (s *service) reply(ctx context.Context, a payment.Answer) (*paymentsv1.Payment, error) {
	c := callOf(ctx)
	if a.Replayed {
		c.replayed = true
		setHeader(ctx, s.log, mdReplayed, "true")
	}
	if (Renderer{}).Refused(a.Stored) {
		p, err := storedProblem(a.Stored)
		if err != nil {
			return nil, err
		}
		return nil, p
	}
	p, err := storedPayment(a.Stored)
	if err != nil {
		return nil, err
	}
	setHeader(ctx, s.log, mdLocation, "/payments/"+p.GetId())
	if c.face == faceREST {
		c.stored = &a.Stored
	}
	return p, nil
}

// GetPayment reads one payment of the caller's.
func (s *service) GetPayment(ctx context.Context, req *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, error) {
	c := callOf(ctx)
	p, err := payment.Get(ctx, s.db, c.userID, req.GetId())
	if err != nil {
		return nil, err
	}
	c.paymentID.Store(&p.ID)
	return toProto(p), nil
}

// The sizes of a page.
const (
	defaultPageSize = 50
	maxPageSize     = 100
)

// ListPayments reads one page of the caller's payments.
func (s *service) ListPayments(ctx context.Context, req *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, error) {
	size := int(min(req.GetPageSize(), maxPageSize))
	if size == 0 {
		size = defaultPageSize
	}
	list := listing{userID: callOf(ctx).userID, orderID: req.GetOrderId()}
	before, err := s.pages.open(list, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	// One more than the page holds: whether there is a next page.
	found, err := payment.List(ctx, s.db, list.userID, list.orderID, before, size+1)
	if err != nil {
		return nil, err
	}
	out := &paymentsv1.ListPaymentsResponse{}
	if len(found) > size {
		found = found[:size]
		out.NextPageToken = s.pages.seal(list, found[size-1].ID)
	}
	for _, p := range found {
		out.Payments = append(out.Payments, toProto(p))
	}
	return out, nil
}
