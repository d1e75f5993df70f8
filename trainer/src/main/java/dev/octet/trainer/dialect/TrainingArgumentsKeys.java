package dev.octet.trainer.dialect;

import static dev.octet.trainer.dialect.KeyRule.decided;
import static dev.octet.trainer.dialect.KeyRule.same;

import java.util.List;

/** Every field of transformers' TrainingArguments. */
final class TrainingArgumentsKeys {
    static final KeyTable ALL = new KeyTable(List.of(
            same("per_device_train_batch_size", KeyType.WHOLE, "8", "batch_size"),
            same("gradient_accumulation_steps", KeyType.WHOLE, "1", "gradient_accumulation"),
            same("learning_rate", KeyType.NUMBER, "5e-5", "optimizer.lr"),
            same("weight_decay", KeyType.NUMBER, "0.0", "optimizer.weight_decay"),
            decided("adam_beta1", KeyType.NUMBER, "0.9"),
            decided("adam_beta2", KeyType.NUMBER, "0.999"),
            same("adam_epsilon", KeyType.NUMBER, "1e-8", "optimizer.eps"),
            same("max_grad_norm", KeyType.NUMBER, "1.0", "clip_grad_norm"),
            decided("num_train_epochs", KeyType.NUMBER, "3.0"),
            decided("max_steps", KeyType.WHOLE, "-1"),
            decided("warmup_steps", KeyType.NUMBER, "0"),
            decided("warmup_ratio", KeyType.NUMBER, "0.0"),
            decided("bf16", KeyType.FLAG, "false"),
            decided("fp16", KeyType.FLAG, "false")));

    private TrainingArgumentsKeys() {}
}
