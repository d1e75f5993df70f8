/**
 * What {@code debug:} asks for, in Transformer Engine's terms (transformer_engine/debug at commit d0067d0, nvidia-dlfw-inspect at dc19d10): which
 * layers, which features, in which iterations; and the statistics of tensors. In comes what a configuration says and tensors in host
 * memory; out come names and numbers. Sessions read tensors for it, hooks write what it finds.
 */
@NullMarked
package dev.octet.trainer.observe;

import org.jspecify.annotations.NullMarked;
