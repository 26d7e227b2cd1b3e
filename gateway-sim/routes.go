package gatewaysim

import (
	"net/http"
	"net/http/pprof"
	"time"
)

const routeCharge = "POST /charges"

// routes is the contract, then the admin API.
func (s *Sim) routes() http.Handler {
	mux := http.NewServeMux()
	for _, e := range []endpoint{
		{routeCharge, s.prepareCharge, s.workCharge},
		{"GET /charges", s.prepareList, s.workList},
		{"GET /charges/{id}", nothingToPrepare, s.workGet},
		{"POST /charges/cancel", s.prepareCancel, s.workCancel},
		{"POST /charges/{id}/refund", nothingToPrepare, s.workRefund},
	} {
		mux.HandleFunc(e.route, s.serve(e))
	}
	for route, handle := range map[string]http.HandlerFunc{
		"GET /healthz":                    s.health,
		"GET /admin/faults":               s.getFaults,
		"PUT /admin/faults":               s.putFaults,
		"DELETE /admin/faults":            s.deleteFaults,
		"GET /admin/webhooks":             s.getWebhooks,
		"PUT /admin/webhooks":             s.putWebhooks,
		"POST /admin/deliver":             s.postDeliver,
		"POST /admin/charges/{id}/cancel": s.postVoid,
		"GET /admin/stats":                s.getStats,
		"DELETE /admin/stats":             s.deleteStats,
		"GET /admin/requests":             s.getRequests,
		"GET /admin/ledger":               s.getLedger,
		"GET /admin/events":               s.getEvents,
		"GET /debug/pprof/":               pprof.Index,
		"GET /debug/pprof/profile":        pprof.Profile,
		"GET /debug/pprof/symbol":         pprof.Symbol,
		"GET /debug/pprof/trace":          pprof.Trace,
	} {
		mux.HandleFunc(route, s.admin(handle))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, failure(http.StatusNotFound, Error{Type: "not_found", Message: "There is no such route."}))
	})
	return mux
}

// adminTimeout bounds the admin API's answers; a profile takes its time.
const adminTimeout = 2 * time.Minute

// admin counts a request in, so that Close waits for it. The admin API has no credential and no faults; it is for those who
// can reach the port.
func (s *Sim) admin(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			s.write(w, closing())
			return
		}
		defer s.handlers.Done()
		// The connection may still have the write deadline of an earlier answer.
		if err := boundWriting(w, adminTimeout); err != nil {
			s.log.Debug("caller left before its answer", "error", err)
			return
		}
		handle(w, r)
	}
}
