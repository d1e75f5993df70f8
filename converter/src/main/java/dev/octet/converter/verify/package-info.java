/**
 * A linter: checks a model against the demands of the programs that will read it. Input: a checkpoint or an ONNX model made
 * by any tool; output: findings, each with the rule it breaks, the consumers, the places and the fix. Headers and small scales are enough
 * for most rules; those that must see the weights run only when asked for. {@link dev.octet.converter.verify.Verifier} lists the rules and
 * runs them; one more rule is one more constant and its line there.
 */
@NullMarked
package dev.octet.converter.verify;

import org.jspecify.annotations.NullMarked;
