package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.yaml.Section;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/**
 * Names that other trainers have for keys of a configuration: the {@code TrainingArguments} of transformers, the configurations of TRL and
 * axolotl, and torch's optimizers and schedulers. A configuration that has one is refused with what to write instead.
 */
final class OtherNames {
    private static final String FALSE = "false";
    private static final String ASSISTANT = "assistant";
    private static final String NARROW_NOWHERE = "fp32";

    /** The two elements of {@code optimizer.betas}. */
    private static final String BETA1 = "betas[0]";

    private static final String BETA2 = "betas[1]";

    /** Keys of a configuration that end as a name of another library for another key. */
    private static final Set<String> OWN_KEYS = Set.of(
            "optimizer.beta1",
            "schedule.total_steps",
            "optimizer.adamw.lr",
            "optimizer.adamw.betas",
            "optimizer.adamw.eps",
            "optimizer.adamw.weight_decay");

    /** Every name, once. */
    private static final Map<String, Row> ROWS = rows();

    /**
     * One name.
     *
     * @param key the key here, dotted; empty where there is nothing to write
     * @param value the value here, of the value there
     */
    private record Row(String key, UnaryOperator<String> value) {}

    private OtherNames() {}

    private static Map<String, Row> rows() {
        Map<String, Row> rows = new LinkedHashMap<>();
        // transformers
        same(rows, "optimizer.lr", "learning_rate");
        same(rows, "epochs", "num_train_epochs", "num_epochs", "max_epochs");
        same(rows, "steps", "max_steps", "num_train_steps", "num_training_steps", "total_steps");
        same(rows, "batch_size", "per_device_train_batch_size", "train_batch_size", "micro_batch_size");
        same(rows, "gradient_accumulation", "gradient_accumulation_steps", "accumulate_grad_batches");
        same(rows, "checkpoint.every", "save_steps", "save_every");
        same(rows, "checkpoint.keep", "save_total_limit");
        same(rows, "eval_every", "eval_steps", "eval_strategy", "evaluation_strategy");
        same(rows, "checkpoint.every", "save_strategy");
        same(rows, "checkpoint.best", "metric_for_best_model");
        rows.put("load_best_model_at_end", new Row("checkpoint.best", on -> on.equals(FALSE) ? "null" : "loss"));
        same(rows, "checkpoint.greater_is_better", "greater_is_better");
        same(rows, "loss.label_smoothing", "label_smoothing_factor");
        same(rows, "schedule.warmup", "warmup_steps", "num_warmup_steps", "warmup_ratio");
        same(rows, "schedule.type", "lr_scheduler");
        rows.put("lr_scheduler_type", new Row("schedule.type", OtherNames::schedule));
        same(rows, "optimizer.weight_decay", "weight_decay", "adam_weight_decay");
        same(rows, "clip_grad_norm", "max_grad_norm", "gradient_clipping", "gradient_clip_val", "max_norm");
        same(rows, "optimizer.eps", "adam_epsilon", "adam_eps", "eps", "epsilon");
        same(rows, "optimizer." + BETA1, "adam_beta1", "beta1");
        same(rows, "optimizer." + BETA2, "adam_beta2", "beta2");
        rows.put("optim", new Row("optimizer.type", OtherNames::optimizer));
        rows.put("bf16", new Row("precision.mode", on -> on.equals(FALSE) ? NARROW_NOWHERE : "bf16"));
        rows.put("fp16", new Row("precision.mode", on -> on.equals(FALSE) ? NARROW_NOWHERE : "fp16"));
        rows.put("fp8", new Row("precision.mode", on -> on.equals(FALSE) ? NARROW_NOWHERE : "fp8"));
        same(rows, "seed", "data_seed", "random_seed");
        same(rows, "data.max_length", "max_seq_length", "max_length", "model_max_length");
        same(rows, "data.sequence", "block_size", "seq_length", "sequence_length");
        rows.put("packing", new Row("data.pack", on -> on.equals(FALSE) ? FALSE : "documents"));
        same(rows, "data.train", "train_file", "train_dataset");
        same(rows, "data.eval", "validation_file", "eval_dataset", "eval_file");
        // TRL and axolotl
        rows.put("assistant_only_loss", new Row("data.train_on", OtherNames::trainOn));
        rows.put("completion_only_loss", new Row("data.train_on", OtherNames::trainOn));
        rows.put("train_on_inputs", new Row("data.train_on", on -> on.equals(FALSE) ? ASSISTANT : "all"));
        rows.put("padding_free", new Row("data.pack", on -> on.equals(FALSE) ? FALSE : "documents"));
        rows.put("sample_packing", new Row("data.pack", on -> on.equals(FALSE) ? FALSE : "documents"));
        rows.put(
                "packing_strategy", new Row("", _ -> "data: {pack: documents} packs whole texts, best fit decreasing"));
        rows.put("dataset_text_field", new Row("", _ -> "texts are read from the column \"text\": rename yours"));
        same(rows, "data.chat_template", "chat_template", "chat_template_path");
        rows.put("chat_template_jinja", new Row("", _ -> "data: {chat_template: FILE} names a file with the template"));
        rows.put("eos_token", new Row("data.eos", UnaryOperator.identity()));
        rows.put("dpo_beta", new Row("loss.beta", UnaryOperator.identity()));
        rows.put("loss_type", new Row("loss.type", OtherNames::loss));
        same(rows, "data.train", "dataset_name", "datasets");
        rows.put("output_dir", new Row("", _ -> "the folder of the run is -o RUN on the command line"));
        rows.put("resume_from_checkpoint", new Row("", _ -> "a run goes on with octet train --resume RUN"));
        rows.put("logging_steps", new Row("", _ -> "every step is in metrics.jsonl; lines come with --log-every N"));
        rows.put("per_device_eval_batch_size", new Row("", _ -> "evaluations have the batch_size of training"));
        // torch
        same(rows, "optimizer.lr", "lr");
        same(rows, "optimizer.betas", "betas");
        same(rows, "optimizer.momentum", "momentum");
        same(rows, "optimizer.dampening", "dampening");
        same(rows, "optimizer.nesterov", "nesterov");
        for (String key : List.of(
                "scale_parameter",
                "relative_step",
                "warmup_init",
                "clip_threshold",
                "decay_rate",
                "ns_steps",
                "ns_coefficients",
                "max_coeff",
                "min_coeff")) {
            same(rows, "optimizer." + key, key);
        }
        same(rows, "optimizer.adjust_lr", "adjust_lr_fn");
        same(rows, "optimizer.adamw.lr", "adam_lr");
        same(rows, "optimizer.lr", "muon_lr");
        rows.put("optim_args", new Row("", _ -> "its values stand in optimizer: {...} by their names"));
        rows.put(
                "lr_scheduler_kwargs",
                new Row("", _ -> "its values stand in schedule: {...} by their names, as num_cycles: 2"));
        for (String key : List.of("num_cycles", "lr_end", "timescale", "min_lr", "min_lr_rate", "num_decay_steps")) {
            same(rows, "schedule." + key, key);
        }
        same(rows, "gradient_accumulation", "grad_accum", "grad_accum_steps");
        return rows;
    }

    private static void same(Map<String, Row> rows, String key, String... names) {
        for (String name : names) {
            rows.put(name, new Row(key, UnaryOperator.identity()));
        }
    }

    private static String trainOn(String on) {
        return on.equals(FALSE) ? "all" : ASSISTANT;
    }

    private static String loss(String name) {
        return name.equals("sigmoid") ? "dpo" : name.equals("nll") ? "causal-lm" : name;
    }

    private static String schedule(String name) {
        return ScheduleType.byName().containsKey(name)
                ? name.replaceFirst("^constant_with_warmup$", "constant")
                : name.toLowerCase(Locale.ROOT);
    }

    private static String optimizer(String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        if (lower.equals("stable_adamw")) {
            return "stableadamw";
        }
        for (String type : List.of("lion", "lamb", "muon", "adafactor")) {
            if (lower.contains(type)) { // paged_lion_8bit, FusedLamb
                return type;
            }
        }
        return lower.startsWith("adamw") ? "adamw" : lower.startsWith("adam") ? "adam" : lower;
    }

    /**
     * Refuses a configuration that has such names, all of them together.
     *
     * @param file the whole configuration
     * @throws InvalidOptionException with what to write instead
     */
    static void refuse(Section file) {
        List<String> found = new ArrayList<>();
        List<String> hints = new ArrayList<>();
        Map<String, Map<String, String>> instead = new LinkedHashMap<>();
        String where = "";
        for (Section.Written written : file.written()) {
            String name = written.key().substring(written.key().lastIndexOf('.') + 1);
            Row row = ROWS.get(name);
            if (row == null || row.key().equals(written.key()) || OWN_KEYS.contains(written.key())) {
                continue;
            }
            where = where.isEmpty() ? written.where() : where;
            found.add(written.key());
            String value = row.value().apply(written.value());
            if (row.key().isEmpty()) {
                hints.add(value);
                continue;
            }
            int at = row.key().indexOf('.');
            instead.computeIfAbsent(at < 0 ? "" : row.key().substring(0, at), _ -> new LinkedHashMap<>())
                    // fp16: false says nothing where bf16: true is written, too
                    .merge(row.key().substring(at + 1), value, (a, b) -> b.equals(NARROW_NOWHERE) ? a : b);
        }
        if (!found.isEmpty()) {
            throw new InvalidOptionException(
                    String.join(", ", found)
                            + (found.size() == 1 ? " has another name here" : " have other names here"),
                    where,
                    fix(instead, hints));
        }
    }

    private static String fix(Map<String, Map<String, String>> instead, List<String> hints) {
        List<String> keys = new ArrayList<>();
        instead.forEach((section, values) -> {
            List<String> pairs = new ArrayList<>();
            if (values.containsKey(BETA1) || values.containsKey(BETA2)) {
                String first = values.getOrDefault(BETA1, "0.9");
                String second = values.getOrDefault(BETA2, "0.999");
                values.keySet().removeAll(List.of(BETA1, BETA2));
                values.put("betas", "[" + first + ", " + second + "]");
            }
            values.forEach((key, value) -> pairs.add(key + ": " + value));
            keys.add(section.isEmpty() ? String.join(", ", pairs) : section + ": {" + String.join(", ", pairs) + "}");
        });
        List<String> all = new ArrayList<>();
        if (!keys.isEmpty()) {
            all.add("write " + String.join(", ", keys));
        }
        all.addAll(hints);
        return String.join("; ", all);
    }
}
