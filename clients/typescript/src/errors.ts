// Failures: docs/reference/protocol.md, Errors.

import { Effect, ErrorKind, type Error as ErrorMessage } from "./gen/norn/v1/error_pb.js";
import { State } from "./gen/norn/v1/task_pb.js";

/** What a failure is, as the protocol names it. */
export type Kind = Exclude<keyof typeof ErrorKind, "UNSPECIFIED">;

const AGAIN: ReadonlySet<Kind> = new Set<Kind>(["UNAVAILABLE", "OVERLOADED", "DEADLINE_EXCEEDED"]);
/** Answers to a hello that no retry changes, at this address. */
export const REFUSED: ReadonlySet<Kind> = new Set<Kind>([
  "UNAUTHENTICATED", "PERMISSION_DENIED", "INCOMPATIBLE", "UNIMPLEMENTED", "INVALID_ARGUMENT",
]);
/** These say that no attempt before can have had the effect either. */
export const SETTLED: ReadonlySet<Kind> = new Set<Kind>(["INVALID_ARGUMENT", "ALREADY_EXISTS"]);

interface Details {
  guarantee?: string;
  retryAfter?: number;
  unknown?: boolean;
  lasting?: boolean;
  state?: State;
  cause?: unknown;
}

/** A failure, of the server or of the way to it. */
export class NornError extends Error {
  override readonly name = "NornError";
  readonly kind: Kind;
  /** One line: what failed and what to do. */
  readonly reason: string;
  /** It may have happened. Then it must not be treated as failed. */
  readonly unknown: boolean;
  /** The guarantee that could not be given, "" when none is concerned. */
  readonly guarantee: string;
  /** Seconds to wait before another try; 0: no advice. */
  readonly retryAfter: number;
  /** It stays so until an operator changes something. */
  readonly lasting: boolean;
  /** Of the task, where the answer says it. */
  readonly state: State;

  constructor(kind: Kind, reason: string, d: Details = {}) {
    const guarantee = d.guarantee ? `; missing guarantee: ${d.guarantee}` : "";
    const unknown = d.unknown ? "; outcome unknown, it may have happened" : "";
    super(`${kind}: ${reason}${guarantee}${unknown}`, { cause: d.cause });
    this.kind = kind;
    this.reason = reason;
    this.unknown = d.unknown ?? false;
    this.guarantee = d.guarantee ?? "";
    this.retryAfter = d.retryAfter ?? 0;
    this.lasting = d.lasting ?? false;
    this.state = d.state ?? State.UNSPECIFIED;
  }

  /** It is worth another try. */
  get again(): boolean {
    return AGAIN.has(this.kind) && !this.lasting;
  }

  /** The same failure, with what is known of all attempts. */
  with(unknown: boolean): NornError {
    const { guarantee, retryAfter, lasting, state, cause } = this;
    return new NornError(this.kind, this.reason, { guarantee, retryAfter, lasting, state, cause, unknown });
  }

  static of(m: ErrorMessage, state: State = State.UNSPECIFIED): NornError {
    const kind = (ErrorKind[m.kind] ?? "INTERNAL") as keyof typeof ErrorKind;
    return new NornError(kind === "UNSPECIFIED" ? "INTERNAL" : kind, m.message, {
      guarantee: m.guarantee, retryAfter: m.retryAfterSeconds, unknown: m.effect !== Effect.NONE, lasting: m.lasting, state,
    });
  }
}

/** A handler throws it to have its task tried again after so many seconds; the attempt counts. */
export class RetryAfter extends Error {
  constructor(readonly seconds: number, reason = `to be tried again after ${seconds} s`) {
    super(reason);
  }
}

/** A handler throws it to put its task off for so many seconds; no attempt is used. */
export class Snooze extends Error {
  constructor(readonly seconds: number, reason = `put off for ${seconds} s`) {
    super(reason);
  }
}

/** A handler throws it when no further attempt can help: the task is dead at once. */
export class Discard extends Error {}
