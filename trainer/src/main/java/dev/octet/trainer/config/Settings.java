package dev.octet.trainer.config;

import dev.octet.formats.peft.PeftConfig;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.shard.ZeroStage;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Configurations as dotted keys with plain values, including defaults: for manifests, and to compare two runs field by field. */
public final class Settings {
    /** Keys that are left out where they have no value. */
    private static final Set<String> NEW_KEYS = Set.of(
            "adapter",
            "precision.qat",
            "precision.qat.scales.calibration",
            "optimizer.rule",
            "optimizer.others",
            "loss.label_smoothing",
            "loss.router",
            "eval_delay");

    private Settings() {}

    /** Every component of a record and its nested records, as {@code optimizer.weight_decay = 0.01}. */
    public static Map<String, String> of(Record config) {
        Map<String, String> settings = new LinkedHashMap<>();
        add(settings, "", config);
        return settings;
    }

    private static void add(Map<String, String> settings, String path, @Nullable Object value) {
        switch (value) {
            case null -> settings.put(path, "");
            case Optional<?> o
            when o.isEmpty() && NEW_KEYS.contains(path) -> {} // as in runs from before there was such a key
            case Optional<?> o -> add(settings, path, o.orElse(null));
            case OptionalDouble o
            when o.isEmpty() && NEW_KEYS.contains(path) -> {} // as in runs from before there was such a key
            case OptionalDouble o -> settings.put(path, o.isPresent() ? String.valueOf(o.getAsDouble()) : "");
            case PeftConfig p -> settings.put(path, p.json().toString());
            case Pattern p -> settings.put(path, p.pattern());
            case Path p -> settings.put(path, p.toString());
            case List<?> list
            when list.stream().anyMatch(Record.class::isInstance) -> {
                for (int i = 0; i < list.size(); i++) {
                    add(settings, path + "[" + i + "]", list.get(i));
                }
            }
            case List<?> list ->
                settings.put(
                        path,
                        list.stream()
                                .map(e -> e instanceof Pattern p ? p.pattern() : String.valueOf(e))
                                .toList()
                                .toString());
            case StatesConfig s when s.equals(StatesConfig.F32) -> {} // as before there was such a key
            case StatesConfig s -> s.settings().forEach((key, v) -> settings.put(path + "." + key, v));
            case RankSettings r when r.equals(RankSettings.NONE) -> {} // as before there were such keys
            case RankSettings r ->
                r.keys().forEach((key, v) -> settings.put(path.substring(0, path.lastIndexOf('.') + 1) + key, v));
            case ActivationSettings a -> settings.putAll(a.keys()); // none as before there were such keys
            case GuardConfig g when !g.isOn() -> {} // as in runs from before there was such a key
            case LossConfig.Preference p
            when p.equals(LossConfig.Preference.DEFAULT) -> {} // as before there was such a key
            case DataConfig.Chat c when c.equals(DataConfig.Chat.DEFAULT) -> {} // as before there was such a key
            case DataConfig.Neighbours n when n == DataConfig.Neighbours.SEEN -> {} // as before there was such a key
            case DebugSettings d when d.equals(DebugSettings.NONE) -> {} // as before there was such a key
            case Offload o when !o.isOn() -> {} // as before there was such a key
            case DistributedConfig d when d.equals(DistributedConfig.NONE) -> {} // as before there was such a key
            case Cadence c -> settings.put(path, c.toString());
            case ZeroStage z -> settings.put(path, String.valueOf(z.number()));
            case Enum<?> e -> settings.put(path, e.name().toLowerCase(Locale.ROOT));
            case Map<?, ?> map -> map.forEach((key, v) -> add(settings, path + "." + key, v));
            case PrecisionPolicy p when !(p instanceof Record) -> settings.put(path, p.name());
            case Record r
            when r.getClass().getRecordComponents().length == 0 ->
                settings.put(path, snakeCase(r.getClass().getSimpleName()).substring(1));
            case Record r -> addComponents(settings, path, r);
            default -> settings.put(path, value.toString());
        }
    }

    private static void addComponents(Map<String, String> settings, String path, Record record) {
        for (RecordComponent c : record.getClass().getRecordComponents()) {
            if (record instanceof TrainingRecipe && c.getName().equals("name")) {
                continue; // a run may continue under another name of its recipe
            }
            String key = snakeCase(c.getName());
            try {
                add(
                        settings,
                        path.isEmpty() ? key : path + "." + key,
                        c.getAccessor().invoke(record));
            } catch (IllegalAccessException | InvocationTargetException e) {
                throw new IllegalStateException("a configuration's component cannot be read: " + c, e);
            }
        }
    }

    /** The key that a component of a record has in a configuration. */
    static String snakeCase(String name) {
        return name.replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
    }
}
