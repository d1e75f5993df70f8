/** TopK: the largest or smallest elements along an axis, and where they are. */
@NullMarked
package dev.octet.trainer.op.topk;

import org.jspecify.annotations.NullMarked;
