/**
 * Operators that take or put rows of elements where indices say: GatherElements, GatherND, ScatterElements, ScatterND. (Gather, which
 * looks up embeddings, is a room of its own.)
 */
@NullMarked
package dev.octet.trainer.op.elements;

import org.jspecify.annotations.NullMarked;
