package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/rig"
)

const (
	// defaultSlots is serve's own default of --psp-slots: a bulkhead is never made smaller than that.
	defaultSlots = 64
	// inFlightSlack keeps --max-in-flight from refusing a worker's next request while its last one is being counted out.
	inFlightSlack = 64
	// leastPool and mostPool bound --mysql-max-open, spareConnections is what the harness and a migration need beside it.
	leastPool, mostPool, spareConnections = 32, 128, 16
)

// service is the service as it is shipped: one server and one simulated PSP, processes of their own, that know nobody but one
// another and the workers of this process.
type service struct {
	site    *site
	form    Form
	rig     *rig.Rig
	psp     *rig.SimProcess
	server  *rig.Server
	conns   []*grpc.ClientConn
	callers []caller // by worker
	before  rows
	tally   tally
}

// serveFlags are the flags with which n requests at once find room.
func serveFlags(n int, coalesce bool) []string {
	return []string{
		"--psp-slots", strconv.Itoa(max(defaultSlots, n)),
		"--max-in-flight", strconv.Itoa(n + inFlightSlack),
		"--mysql-max-open", strconv.Itoa(min(mostPool, max(leastPool, n))),
		fmt.Sprintf("--coalesce=%t", coalesce),
	}
}

// newService starts PSP and server for n workers. Rows that are in the tables already are not counted.
func (s *site) newService(ctx context.Context, f Form, c Condition, n int) (v *service, err error) {
	s.cells++
	v = &service{site: s, form: f}
	if v.rig, err = s.rig("cell" + strconv.Itoa(s.cells)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close(context.WithoutCancel(ctx)))
		}
	}()
	if v.before, err = s.rows(ctx); err != nil {
		return nil, err
	}
	var pspFlags []string
	if c.PSPLatency > 0 {
		pspFlags = append(pspFlags, "--latency", "fixed "+c.PSPLatency.String())
	}
	if v.psp, err = v.rig.StartPSP(ctx, pspFlags...); err != nil {
		return nil, err
	}
	if v.server, err = v.rig.StartServer(ctx, "server", v.psp.PSP, serveFlags(n, f.Coalesce)...); err != nil {
		return nil, err
	}
	if c.Webhooks {
		if err := v.psp.SetWebhookURL(ctx, v.server.WebhookURL()); err != nil {
			return nil, err
		}
	}
	return v, v.connect(n)
}

func (v *service) connect(n int) (err error) {
	if v.form.Face == REST {
		for range n {
			v.callers = append(v.callers, &restCaller{addr: v.server.REST, keys: v.site.keys})
		}
		return nil
	}
	if v.conns, err = dialGRPC(v.server.GRPC, n); err != nil {
		return err
	}
	for i := range n {
		stub := paymentsv1.NewPaymentServiceClient(v.conns[i%len(v.conns)])
		v.callers = append(v.callers, &grpcCaller{stub: stub, keys: v.site.keys})
	}
	return nil
}

// buy is one purchase, from a new key to its payment.
func (v *service) buy(ctx context.Context, worker int) error {
	err := v.tally.until(ctx, v.callers[worker], newPurchase(), func(a answer) bool { return a.charged })
	if err == nil {
		v.tally.buy()
	}
	return err
}

func (v *service) processes() processes {
	return processes{procServer: v.server.PID(), procPSP: v.psp.PID(), procMySQL: v.site.mysql.pid}
}

func (v *service) refusals() map[string]int64 { return v.tally.refused }

// books is what a form's measurements have left behind.
type books struct {
	// Payments is how many were made, those before and after what was measured too.
	Payments int64 `json:"payments"`
	// Events is how many of their events had arrived by webhook when the load had ended.
	Events int64 `json:"events"`
}

// check ends the server and compares what clients were told with the tables and the PSP's count.
func (v *service) check(ctx context.Context) (books, error) {
	stats, err := v.psp.Stats(ctx)
	if err != nil {
		return books{}, err
	}
	stop, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	code, err := v.server.Stop(stop)
	if err != nil {
		return books{}, err
	}
	if code != 0 {
		return books{}, fmt.Errorf("the server's exit status is %d; its log is %s", code, v.rig.LogFile("server"))
	}
	r, err := v.site.rows(ctx)
	if err != nil {
		return books{}, err
	}
	r = r.since(v.before)
	return books{Payments: v.tally.charged, Events: r.events}, agree(v.tally.charged, r, stats.Charges)
}

func (v *service) close(context.Context) error {
	var errs []error
	for _, c := range v.callers {
		errs = append(errs, c.close())
	}
	return errors.Join(append(errs, closeAll(v.conns), v.rig.Cleanup())...)
}

// aloneFor is how long the PSP is measured alone.
const aloneFor = time.Second

// pspAlone measures what the PSP takes for a charge by itself, asked by one caller who keeps the connection.
func (v *service) pspAlone(ctx context.Context, w window) (sample, error) {
	c := &restCaller{addr: v.psp.URL[len("http://"):]}
	s, err := closedLoop(ctx, 1, w, func(ctx context.Context, _ int) error {
		p := newPurchase()
		body := fmt.Sprintf(`{"amount":%d,"currency":%q,"payment_method":%q,"description":%q,"metadata":{"order_id":%q}}`,
			amount, currency, paymentMethod, description, p.order)
		resp, err := c.exchange(ctx, fmt.Appendf(nil, "POST /charges HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", c.addr, rig.PSPKey, p.key, len(body), body))
		if err != nil {
			return fmt.Errorf("the PSP alone: %w", err)
		}
		if resp.StatusCode != 201 {
			return fmt.Errorf("the PSP alone: HTTP %d", resp.StatusCode)
		}
		return nil
	})
	return s, errors.Join(err, c.close())
}
