/**
 * Adapters as Hugging Face's PEFT stores them: a folder with {@code adapter_config.json} and {@code adapter_model.safetensors}. In: a folder.
 * Out: the configuration with every key kept, typed views of it, tensors by module. The rules by which PEFT chooses modules are here too.
 *
 * <p>Sources: PEFT 0.21.0 (https://github.com/huggingface/peft): {@code config.py}, {@code tuners/tuners_utils.py}, {@code
 * utils/save_and_load.py}, {@code utils/constants.py}.
 */
@NullMarked
package dev.octet.formats.peft;

import org.jspecify.annotations.NullMarked;
