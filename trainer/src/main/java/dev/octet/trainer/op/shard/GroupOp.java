package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.Op;

/**
 * A step of a model that the ranks of a group do together, each with its part of a tensor. It is read from a graph, which knows of no ranks, and gets them before its program
 * runs.
 */
public interface GroupOp extends CutOp {
    /** The same among these ranks. */
    Op among(Collectives ranks);
}
