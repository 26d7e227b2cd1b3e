package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	paymentsv1 "chargeonce/api/payments/v1"
)

// APIKey is the caller's credential, "sk_…". It does not print.
type APIKey string

// String implements fmt.Stringer with a placeholder.
func (APIKey) String() string { return "[redacted]" }

// GoString keeps %#v from printing the credential.
func (k APIKey) GoString() string { return k.String() }

// MarshalText keeps JSON and text encoders, and slog with them, from printing the credential.
func (k APIKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Config says where the service is and how patient to be with it. APIKey and exactly one of BaseURL, Target and Conn are
// required; a zero value elsewhere means the default that is named.
type Config struct {
	APIKey APIKey

	// BaseURL is the REST face, such as "https://pay.example.com". HTTP makes its requests; default: a pool of connections of
	// its own. What is given here must not send a request again by itself.
	BaseURL string
	HTTP    http.RoundTripper

	// Target is the gRPC face, as grpc.NewClient takes it. Credentials default to TLS with the system's roots.
	Target      string
	Credentials credentials.TransportCredentials
	// Conn is the gRPC face over a connection of the caller's, made with grpc.WithDisableRetry and
	// grpc.WithDisableServiceConfig. [Client.Close] leaves it open.
	Conn grpc.ClientConnInterface

	// TryTimeout bounds one try (default 10 s). The service is told of it, so that it answers before it is over.
	TryTimeout time.Duration
	// MaxTries bounds the tries of one call (default 10).
	MaxTries int
	// MaxWait is the longest wait between two tries that is worth it (default 30 s). A service that asks for a longer one is not
	// asked again by this call.
	MaxWait time.Duration
	// OnAttempt, if set, is called after every try, from the goroutine of the call.
	OnAttempt func(context.Context, Attempt)
}

// Attempt tells of one try, for logs and metrics.
type Attempt struct {
	// Number counts the tries of one call, from 1.
	Number int
	// Key is the purchase's; empty for reads.
	Key Key
	// Took is from sending to the answer or the giving up on it.
	Took time.Duration
	// Err is nil when the try succeeded.
	Err *Error
	// Wait is how long is waited before the next try; Last says that there is none.
	Wait time.Duration
	Last bool
}

func (c Config) withDefaults() (Config, error) {
	if c.APIKey == "" {
		return c, errors.New("client: Config.APIKey is empty")
	}
	places := 0
	for _, given := range []bool{c.BaseURL != "", c.Target != "", c.Conn != nil} {
		if given {
			places++
		}
	}
	if places != 1 {
		return c, errors.New("client: set exactly one of Config.BaseURL, Target and Conn")
	}
	if c.TryTimeout < 0 || c.MaxTries < 0 || c.MaxWait < 0 {
		return c, errors.New("client: a number in Config is negative")
	}
	setDefault(&c.TryTimeout, 10*time.Second)
	setDefault(&c.MaxTries, 10)
	setDefault(&c.MaxWait, 30*time.Second)
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Client calls the payment service. It is safe for use by many goroutines.
type Client struct {
	cfg  Config
	face face
}

// face is one of the two ways in which the service is spoken to. Every method makes one try, and its error is what that one
// ended with.
type face interface {
	create(context.Context, Intent) (*Outcome, *Error)
	get(context.Context, *paymentsv1.GetPaymentRequest) (*paymentsv1.Payment, *Error)
	list(context.Context, *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, *Error)
	close() error
}

// New makes a client. It connects to nothing yet.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg}
	if cfg.BaseURL != "" {
		c.face, err = newREST(cfg)
	} else {
		c.face, err = newGRPC(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

// Close gives back the connections that the client made itself. Calls under way fail.
func (c *Client) Close() error { return c.face.close() }

// Outcome is a purchase that was charged, or, with the payment's status PENDING, accepted for it.
type Outcome struct {
	Payment *paymentsv1.Payment
	// Replayed: the service gave this answer to the key before.
	Replayed bool
	// HTTPStatus is 201, or 202 for a pending payment; over gRPC it is zero.
	HTTPStatus int
	// Location is the payment's own path.
	Location string
	// TraceID tells the service's operators where to look.
	TraceID string
	// Tries is how many this call made.
	Tries int
}

// Pay sends the intent until its outcome is known: under its one key, within ctx's deadline and [Config.MaxTries].
//
// It returns an [*Error] whose NextAction is NEW_KEY, STOP or FIX_REQUEST when the service refused the purchase, and an
// [*OutcomeUnknownError] when it gave up without an answer that is final. Any other error is about the intent itself, and
// nothing was sent.
func (c *Client) Pay(ctx context.Context, intent Intent) (*Outcome, error) {
	if err := intent.check(); err != nil {
		return nil, err
	}
	var out *Outcome
	tries, err := c.try(ctx, intent.Key, func(ctx context.Context) (failed *Error) {
		out, failed = c.face.create(ctx, intent)
		return failed
	})
	var stopped *gaveUp
	switch {
	case errors.As(err, &stopped):
		unknown := &OutcomeUnknownError{Intent: intent, Tries: stopped.tries, err: err}
		if stopped.last != nil {
			unknown.RetryAfter = stopped.last.RetryAfter
		}
		return nil, unknown
	case err != nil:
		return nil, err
	}
	out.Tries = tries
	return out, nil
}

// Get reads a payment of the caller's as it is now. The error is an [*Error], or says that the tries ended without an answer.
func (c *Client) Get(ctx context.Context, id string) (*paymentsv1.Payment, error) {
	var out *paymentsv1.Payment
	_, err := c.try(ctx, "", func(ctx context.Context) (failed *Error) {
		out, failed = c.face.get(ctx, &paymentsv1.GetPaymentRequest{Id: id})
		return failed
	})
	if err != nil {
		return nil, fmt.Errorf("client: get payment: %w", err)
	}
	return out, nil
}

// List reads one page of the caller's payments, newest first; see the contract for how pages follow one another. Its errors
// are those of [Client.Get].
func (c *Client) List(ctx context.Context, req *paymentsv1.ListPaymentsRequest) (*paymentsv1.ListPaymentsResponse, error) {
	var out *paymentsv1.ListPaymentsResponse
	_, err := c.try(ctx, "", func(ctx context.Context) (failed *Error) {
		out, failed = c.face.list(ctx, req)
		return failed
	})
	if err != nil {
		return nil, fmt.Errorf("client: list payments: %w", err)
	}
	return out, nil
}
