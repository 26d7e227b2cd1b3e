package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A panic before a call's line was written is logged, and one that the line tells of is not logged twice.
func TestAPanicThatNoLineTellsOfIsLogged(t *testing.T) {
	t.Parallel()
	for told, lines := range map[bool]int{false: 1, true: 0} {
		var out bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&out, nil))}
		ctx := withCall(t.Context(), &call{face: faceREST, told: told})
		_, err := s.lastResort(ctx, nil, nil, func(context.Context, any) (any, error) { panic("a fault of ours") })
		if err == nil {
			t.Error("no error")
		}
		if got := strings.Count(out.String(), `panic="a fault of ours"`); got != lines {
			t.Errorf("told %t: %d lines, want %d: %s", told, got, lines, &out)
		}
	}
}

// What observe has told is not told again; what the gateway made itself was told by nobody.
func TestTheGatewaysOwnErrorsAreTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		told bool
	}{
		{invalid("A bad request."), true},
		{status.Error(codes.InvalidArgument, "of the gateway's own"), false},
	} {
		var told *forwarded
		forwardError(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/payments", nil), metadata.MD{}, tt.err,
			func(_ http.ResponseWriter, _ *http.Request, err error) { errors.As(err, &told) })
		if (told != nil) != tt.told {
			t.Errorf("%v: told already: %t, want %t", tt.err, told != nil, tt.told)
		}
	}
}
