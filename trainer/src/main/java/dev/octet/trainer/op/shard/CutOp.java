package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.Op;

/** An operator that only the graph of a rank has which shares layers with others; no model is exported with it. */
public interface CutOp extends Op {}
