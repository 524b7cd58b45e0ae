// The messages of the protocol, as protoc-gen-es makes them.

export * from "./gen/norn/v1/error_pb.js";
export * from "./gen/norn/v1/service_pb.js";
export * from "./gen/norn/v1/task_pb.js";
