// A client and worker for Norn, the distributed task queue.

export {
  Claim, Client, type CallOptions, type ClaimOptions, type ClientOptions, type Failure, type ListOptions, type NewTask, type Receipt,
  type Result, type Task, type Work, type WorkDone,
} from "./client.js";
export { Discard, NornError, RetryAfter, Snooze, type Kind } from "./errors.js";
export { ClaimOutcome, DependencyFailure, State } from "./gen/norn/v1/task_pb.js";
export { taskID, taskIDBytes, type TaskID } from "./ids.js";
export { Job, Worker, type Handler, type Output, type WorkerOptions } from "./worker.js";
