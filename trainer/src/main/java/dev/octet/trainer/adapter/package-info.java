/**
 * Adapters: what is trained besides a frozen model, as rewrites of its canonical graph. Parameters have the keys of PEFT's files, so that a checkpoint's adapter
 * is a PEFT folder. See Hu et al., "LoRA" (arXiv:2106.09685), and Hugging Face's PEFT for names and defaults.
 */
@NullMarked
package dev.octet.trainer.adapter;

import org.jspecify.annotations.NullMarked;
