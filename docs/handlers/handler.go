// Package handler shows two handlers with idempotency keys, for pgx. docs/KEYS.md is the contract; the statements are its.
//
// A web framework passes the account (from the credentials), the header and the raw body, and sends the Reply.
package handler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const claimSQL = `
SELECT k.key, c.outcome, c.lease_id, c.recovery_point, c.provider_charge_id, c.retry_after_s,
       c.response_code, c.response_body, c.created_at
  FROM (SELECT idem.key_from_header($2) AS key) k,
       idem.claim_key(account => $1, key => k.key, endpoint => $3, request_hash => $4, body => $5,
                      ttl => interval '72 hours', lease => interval '60 seconds') c
`
const intentSQL = `
SELECT p.provider_key, i.intent
  FROM idem.provider_key($1, $2, 'charge') AS p(provider_key),
       idem.send_intent($1, $2, $3, 'stripe', p.provider_key, key_window => interval '24 hours') AS i(intent)
`
const checkpointSQL = `SELECT idem.checkpoint($1, $2, $3, recovery_point => 'charged', provider_charge_id => $4)`
const completeSQL = `SELECT idem.complete_key($1, $2, $3, response_code => $4, response_body => $5)`
const releaseSQL = `
SELECT idem.release_key($1, $2, $3, retry_in => interval '30 seconds', error_class => $4, error => $5)
`
const claimMessageSQL = `SELECT idem.claim_message($1, $2)`

// ErrDeclined is the provider's final no.
var ErrDeclined = errors.New("declined")

var errLeaseLost = errors.New("the lease was lost: roll back, the retry gets what the other one saved")

// Reply is what goes back to the client.
type Reply struct {
	Code    int
	Body    []byte
	Headers map[string]string
}

// Charge calls the provider. It returns the charge's id, ErrDeclined, or any other error when nobody knows.
type Charge func(ctx context.Context, providerKey string, body []byte) (string, error)

type claim struct {
	key, outcome  string
	leaseID       *string
	recoveryPoint *string
	chargeID      *string
	retryAfterS   *int32
	responseCode  *int32
	responseBody  []byte
	createdAt     *time.Time
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func takeClaim(ctx context.Context, db querier, account, header, endpoint string, hash, body []byte) (claim, error) {
	var c claim
	err := db.QueryRow(ctx, claimSQL, account, header, endpoint, hash, body).Scan(&c.key, &c.outcome, &c.leaseID,
		&c.recoveryPoint, &c.chargeID, &c.retryAfterS, &c.responseCode, &c.responseBody, &c.createdAt)
	return c, err
}

func (c claim) isOurs() bool { return c.outcome == "claimed" || c.outcome == "resumed" }

// reply is the answer to every claim that gave no lease.
func (c claim) reply() Reply {
	switch c.outcome {
	case "replay":
		return Reply{int(*c.responseCode), c.responseBody, map[string]string{
			"Idempotent-Replayed":     "true",
			"X-Original-Request-Time": c.createdAt.UTC().Format(time.RFC3339Nano),
		}}
	case "in_progress":
		return Reply{409, []byte(`{"code":"in_progress"}`),
			map[string]string{"Retry-After": strconv.Itoa(int(*c.retryAfterS))}}
	case "needs_review":
		return Reply{409, []byte(`{"code":"under_review"}`), nil}
	case "mismatch":
		return Reply{422, []byte(`{"code":"key_used_for_another_request"}`), nil}
	case "stale":
		return Reply{410, []byte(`{"code":"key_too_old"}`), nil}
	}
	return unavailable(1)
}

func unavailable(seconds int) Reply {
	return Reply{503, nil, map[string]string{"Retry-After": strconv.Itoa(seconds)}}
}

// replyToError fails closed: whatever went wrong, nothing was done without a claim.
func replyToError(err error) Reply {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "22023" {
		body, _ := json.Marshal(map[string]string{"code": "bad_key", "message": refused.Message})
		return Reply{400, body, nil}
	}
	return unavailable(1)
}

// fingerprint is what the client means: the same for every attempt. Encoding a map sorts its keys.
func fingerprint(body []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(canonical)
	return hash[:], nil
}

func isTrue(ctx context.Context, db querier, sql string, args ...any) error {
	var ok bool
	if err := db.QueryRow(ctx, sql, args...).Scan(&ok); err != nil {
		return err
	}
	if !ok {
		return errLeaseLost
	}
	return nil
}

// CreateOrder does all its work in this database: one transaction.
func CreateOrder(ctx context.Context, pool *pgxpool.Pool, account, header string, body []byte) Reply {
	hash, err := fingerprint(body)
	if err != nil {
		return Reply{400, []byte(`{"code":"malformed_body"}`), nil}
	}
	var reply Reply
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		c, err := takeClaim(ctx, tx, account, header, "POST /v1/orders", hash, body)
		if err != nil {
			return err
		}
		if !c.isOurs() {
			reply = c.reply()
			return nil
		}
		var orderID int64
		row := tx.QueryRow(ctx, "INSERT INTO orders (body) VALUES ($1) RETURNING id", string(body))
		if err := row.Scan(&orderID); err != nil {
			return err
		}
		answer, err := json.Marshal(map[string]int64{"order": orderID})
		if err != nil {
			return err
		}
		reply = Reply{201, answer, nil}
		return isTrue(ctx, tx, completeSQL, account, c.key, c.leaseID, 201, answer)
	})
	if err != nil {
		return replyToError(err)
	}
	return reply
}

// CreatePayment calls a provider: in phases, each committed before the next.
func CreatePayment(
	ctx context.Context, pool *pgxpool.Pool, account, header string, body []byte, charge Charge,
) Reply {
	hash, err := fingerprint(body)
	if err != nil {
		return Reply{400, []byte(`{"code":"malformed_body"}`), nil}
	}
	c, err := takeClaim(ctx, pool, account, header, "POST /v1/payments", hash, body)
	if err != nil {
		return replyToError(err)
	}
	if !c.isOurs() {
		return c.reply()
	}
	release := func(class string, message *string) Reply {
		if err := isTrue(ctx, pool, releaseSQL, account, c.key, c.leaseID, class, message); err != nil {
			// The lease runs out by itself.
			return replyToError(err)
		}
		return unavailable(30)
	}
	chargeID := c.chargeID
	if *c.recoveryPoint != "charged" {
		var providerKey, intent string
		row := pool.QueryRow(ctx, intentSQL, account, c.key, c.leaseID)
		if err := row.Scan(&providerKey, &intent); err != nil {
			return replyToError(err)
		}
		if intent != "ok" {
			return release(intent, nil)
		}
		id, err := charge(ctx, providerKey, body)
		if errors.Is(err, ErrDeclined) {
			answer := []byte(`{"code":"declined"}`)
			if err := isTrue(ctx, pool, completeSQL, account, c.key, c.leaseID, 402, answer); err != nil {
				return replyToError(err)
			}
			return Reply{402, answer, nil}
		}
		if err != nil {
			// Nobody knows: the row keeps the intent, the retry sends the same key.
			message := err.Error()
			return release("no_answer", &message)
		}
		if err := isTrue(ctx, pool, checkpointSQL, account, c.key, c.leaseID, id); err != nil {
			return replyToError(err)
		}
		chargeID = &id
	}
	answer, err := json.Marshal(map[string]*string{"charge": chargeID})
	if err != nil {
		return replyToError(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO payments (charge_id) VALUES ($1)", chargeID); err != nil {
			return err
		}
		return isTrue(ctx, tx, completeSQL, account, c.key, c.leaseID, 201, answer)
	})
	if err != nil {
		return replyToError(err)
	}
	return Reply{201, answer, nil}
}

// Receive works each message off once; acknowledge to the broker when it returns nil.
func Receive(ctx context.Context, pool *pgxpool.Pool, messageID string, work func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var isNew bool
		if err := tx.QueryRow(ctx, claimMessageSQL, "mailer", messageID).Scan(&isNew); err != nil || !isNew {
			return err
		}
		return work(tx)
	})
}
