package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	paymentsv1 "chargeonce/api/payments/v1"
	"chargeonce/internal/payment"
)

// readOnly is whether this server takes new purchases. While it does not, it writes nothing: a new purchase is told to come back
// before it claims its key, and an event of the PSP's is refused so that the PSP sends it again. Reads go on, and so do replays
// of keys that are done, which are reads. What was begun before the switch is brought to its end.
type readOnly struct {
	log *slog.Logger
	is  atomic.Bool
}

// readOnlyRetry is when a client that was refused may come back: the mode lasts longer than a fault.
const readOnlyRetry = 5 * time.Second

var errReadOnly = errors.New("this server is in read-only mode")

func newReadOnly(ctx context.Context, on bool, log *slog.Logger) *readOnly {
	r := &readOnly{log: log}
	r.set(ctx, on)
	return r
}

func (r *readOnly) set(ctx context.Context, on bool) {
	if was := r.is.Swap(on); was != on {
		r.log.WarnContext(ctx, "read-only mode switched", "read_only", on)
	}
}

func refusedReadOnly() *problem {
	p := retryLater(paymentsv1.Reason_UNAVAILABLE, readOnlyRetry, errReadOnly)
	// "Nothing was charged" would be a lie: an earlier request under the key may have charged, and its answer may have been lost.
	p.detail = "The service takes no new purchases at present. This request charged nothing; an earlier one under the same key may have."
	return p
}

// replayOnly is what becomes of a purchase in read-only mode.
func (s *service) replayOnly(ctx context.Context, p payment.Purchase) (payment.Answer, error) {
	answer, err := s.flow.Replay(ctx, p)
	if errors.Is(err, payment.ErrNotDone) {
		return payment.Answer{}, refusedReadOnly()
	}
	return answer, err
}

// privateName reports whether a Host is an address, or a name that no public DNS has.
func privateName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || !strings.Contains(host, ".")
}

// unlessReadOnly refuses what next would write.
func (s *Server) unlessReadOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.readOnly.is.Load() {
			p := refusedReadOnly()
			p.detail = "The service takes no events at present. Send this one again."
			s.refuse(w, r, p)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readOnlyRoutes let whoever is on call see and switch the mode of this one server, on the admin port: GET tells it, PUT turns it
// on, DELETE off. Every answer says what it is afterwards. It is not switched under a name that somebody in the Internet could
// have for this address: that would be a page in somebody's browser (DNS rebinding).
func (s *Server) readOnlyRoutes(mux *http.ServeMux) {
	tell := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := fmt.Fprintf(w, "{\"read_only\":%t}\n", s.readOnly.is.Load()); err != nil {
			s.log.InfoContext(r.Context(), "the client left before its answer was written", "error", err)
		}
	}
	change := func(on bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !privateName(r.Host) {
				http.Error(w, "use an IP address, localhost or a name without a dot", http.StatusMisdirectedRequest)
				return
			}
			s.readOnly.set(r.Context(), on)
			tell(w, r)
		}
	}
	mux.HandleFunc("GET /admin/read-only", tell)
	mux.HandleFunc("PUT /admin/read-only", change(true))
	mux.HandleFunc("DELETE /admin/read-only", change(false))
}
