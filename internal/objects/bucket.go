package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	awsEndpoint = "https://s3.amazonaws.com"
	// tries is how often a request is sent that the network or the store has
	// failed; the library pauses between them.
	tries = 4
	// dialTime and answerTime bound a store that is not there, or silent.
	dialTime   = 5 * time.Second
	answerTime = 30 * time.Second
	// roleTime bounds the question for the role of this machine, which on most
	// has nobody to answer it.
	roleTime = 2 * time.Second
)

// bucket is a store in S3.
type bucket struct {
	client    *minio.Client
	transport *http.Transport
	name      string
	prefix    string // of all keys; empty, or with a slash at its end
}

var _ Store = (*bucket)(nil)

func newBucket(u *url.URL) (*bucket, error) {
	bad := func(format string, args ...any) (*bucket, error) {
		return nil, fmt.Errorf("%w: %s: %s", ErrAddress, u.Redacted(), fmt.Sprintf(format, args...))
	}
	b := &bucket{name: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case u.User != nil:
		return bad("credentials do not belong into an address; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case b.name == "" || u.Fragment != "":
		return bad("want s3://BUCKET/PREFIX")
	}
	if b.prefix != "" {
		b.prefix += "/"
	}
	options := minio.Options{MaxRetries: tries}
	endpoint := awsEndpoint
	for key, values := range u.Query() { // Any order: each sets its own.
		var err error
		switch value := values[len(values)-1]; key {
		case "endpoint":
			endpoint = value
		case "region":
			options.Region = value
		case "path-style":
			var path bool
			if path, err = strconv.ParseBool(value); path {
				options.BucketLookup = minio.BucketLookupPath
			}
		default:
			return bad("%q is none of endpoint, region, path-style", key)
		}
		if err != nil {
			return bad("%s: %v", key, err)
		}
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" {
		return bad("endpoint: %q is not http(s)://HOST[:PORT]", endpoint)
	}
	b.transport = http.DefaultTransport.(*http.Transport).Clone()
	b.transport.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	b.transport.ResponseHeaderTimeout = answerTime
	b.transport.DisableCompression = true // what is stored is what is read
	options.Secure, options.Transport, options.Creds = at.Scheme == "https", b.transport, b.credentials()
	if b.client, err = minio.New(at.Host, &options); err != nil {
		return bad("%v", err)
	}
	return b, nil
}

// credentials looks where the AWS tools look.
func (b *bucket) credentials() *credentials.Credentials {
	role := &http.Client{Transport: b.transport, Timeout: roleTime}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: role},
	})
}

// failed names the place, and the error where it is one of ours.
func (b *bucket) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	where := "s3://" + b.name + "/" + b.prefix + name
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey || answer.Code == minio.NoSuchBucket:
		return fmt.Errorf("%w: %s (%s)", ErrNotFound, where, answer.Code)
	case answer.StatusCode == http.StatusPreconditionFailed || answer.Code == "ConditionalRequestConflict":
		return fmt.Errorf("%w: %s", ErrExists, where)
	case answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("objects: %s %s: refused by the store (%w); credentials are looked for in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws/credentials and the role of the machine", what, where, err)
	}
	return fmt.Errorf("objects: %s %s: %w", what, where, err)
}

func (b *bucket) write(ctx context.Context, name string, data []byte, o minio.PutObjectOptions) error {
	if err := errors.Join(checkName(name), checkSize(name, int64(len(data)))); err != nil {
		return err
	}
	o.ContentType = "application/octet-stream"
	o.DisableMultipart = len(data) < 64<<20 // whole or not at all in one request
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	return b.failed("write", name, err)
}

// Put writes an object.
func (b *bucket) Put(ctx context.Context, name string, data []byte) error {
	return b.write(ctx, name, data, minio.PutObjectOptions{})
}

// Create writes an object if there is none. A store that does not know conditional
// writes is looked at first: better than not at all.
func (b *bucket) Create(ctx context.Context, name string, data []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	err := b.write(ctx, name, data, o)
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusNotImplemented {
		return err
	}
	_, err = b.client.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	if err == nil {
		return fmt.Errorf("%w: s3://%s/%s%s", ErrExists, b.name, b.prefix, name)
	}
	if err = b.failed("look at", name, err); !errors.Is(err, ErrNotFound) {
		return err
	}
	return b.Put(ctx, name, data)
}

// Get reads an object.
func (b *bucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	// Without this the object's reader ends only with its context.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.failed("read", name, err)
	}
	defer func() { _ = o.Close() }() // what was read counts
	info, err := o.Stat()
	if err != nil {
		return nil, b.failed("read", name, err)
	}
	if err := checkSize(name, info.Size); err != nil {
		return nil, err
	}
	data := make([]byte, info.Size)
	if _, err = io.ReadFull(o, data); err != nil && info.Size > 0 {
		return nil, b.failed("read", name, err)
	}
	return data, nil
}

// List gives the objects that begin so, not those below another slash.
func (b *bucket) List(ctx context.Context, prefix string) ([]Info, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []Info
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix}) {
		if o.Err != nil {
			return nil, b.failed("list", prefix, o.Err)
		}
		name := strings.TrimPrefix(o.Key, b.prefix)
		if checkName(name) == nil {
			all = append(all, Info{Name: name, Size: o.Size, Modified: o.LastModified})
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return sortInfos(all), nil
}

// Delete removes an object.
func (b *bucket) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := b.failed("delete", name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Close frees idle connections.
func (b *bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}
