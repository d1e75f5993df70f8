/**
 * What is wrong with a model for those who will read it: a linter of consumers' contracts. Comes in: a checkpoint or an ONNX model made
 * by any tool; goes out: findings, each with the rule it breaks, for whom, where, and what mends it. Headers and small scales are enough for most rules;
 * those that must see the weights run only when asked for. {@link dev.octet.converter.verify.Verifier} lists the rules and runs them; one
 * more rule is one more class and its line there.
 */
@NullMarked
package dev.octet.converter.verify;

import org.jspecify.annotations.NullMarked;
