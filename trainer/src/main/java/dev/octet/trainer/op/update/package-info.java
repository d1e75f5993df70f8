/**
 * What happens between backward and the next forward: the norm of all gradients, the decision whether the step counts, and the
 * optimizers' steps. These operators have no gradients; parameters and moments are outputs that lie where the inputs do.
 */
@NullMarked
package dev.octet.trainer.op.update;

import org.jspecify.annotations.NullMarked;
