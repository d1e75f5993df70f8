package dev.octet.bench.gpu;

import dev.octet.trainer.kernel.CudaSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The parameters of kernels, as their sources have them: what a launch's arguments are called. */
final class KernelSignature {
    /** A kernel's name, in which {@code ##S} stands for a suffix, then its blocks, then its parameters. */
    private static final Pattern KERNEL = Pattern.compile("KERNEL\\(([\\w#]+),([^(]*)\\(([^()]*)\\)\\)");

    private static final Pattern TYPED = Pattern.compile("\\b(?:const\\s+)?(\\w+)\\s*(\\*?)\\s*(\\w+)$");

    /** Bytes of the types of {@code octet.cuh} and of C++. */
    private static final Map<String, Integer> WIDTHS = Map.ofEntries(
            Map.entry("f64", 8),
            Map.entry("double", 8),
            Map.entry("i64", 8),
            Map.entry("u64", 8),
            Map.entry("f32", 4),
            Map.entry("float", 4),
            Map.entry("i32", 4),
            Map.entry("int", 4),
            Map.entry("u32", 4),
            Map.entry("bf16", 2),
            Map.entry("f16", 2),
            Map.entry("u16", 2),
            Map.entry("i8", 1),
            Map.entry("u8", 1),
            Map.entry("e4m3", 1),
            Map.entry("e5m2", 1),
            Map.entry("boolean", 1));

    private static final Map<Key, List<Parameter>> KNOWN = new ConcurrentHashMap<>();

    private record Key(CudaSource source, String kernel) {}

    /**
     * @param pointer whether it is an address
     * @param width bytes of what it points to, or of itself; 0 where the source does not show the type
     */
    record Parameter(String name, boolean pointer, int width) {}

    private KernelSignature() {}

    /** The parameters of a kernel in their order; empty where a macro stands for some of them. */
    static List<Parameter> of(CudaSource source, String kernel) {
        return KNOWN.computeIfAbsent(new Key(source, kernel), k -> find(k.source(), k.kernel()));
    }

    private static List<Parameter> find(CudaSource source, String kernel) {
        String text = source.text().replaceAll("\\s*\\\\?\\n\\s*", " ");
        Matcher m = KERNEL.matcher(text);
        List<Parameter> made = List.of();
        while (m.find()) {
            String name = m.group(1);
            if (name.equals(kernel)) {
                return parameters(m.group(3), source, List.of());
            }
            Matcher fits = pasted(name).matcher(kernel);
            if (name.contains("##") && fits.matches() && made.isEmpty()) {
                List<String> suffixes = new ArrayList<>();
                MatchResult found = fits.toMatchResult();
                for (int i = 1; i <= found.groupCount(); i++) {
                    suffixes.add(found.group(i));
                }
                made = parameters(m.group(3), source, suffixes);
            }
        }
        return made;
    }

    /** Names that a macro's name stands for: a part behind {@code ##} is one of its parameters, or begins with an underscore. */
    private static Pattern pasted(String name) {
        StringBuilder pattern = new StringBuilder();
        for (String part : name.split("##", -1)) {
            pattern.append(pattern.isEmpty() || part.startsWith("_") ? part : "([a-z0-9]+)");
        }
        return Pattern.compile(pattern.toString());
    }

    private static List<Parameter> parameters(String text, CudaSource source, List<String> suffixes) {
        List<Parameter> parameters = new ArrayList<>();
        for (String parameter : text.split(",", -1)) {
            String whole = suffixes.size() == 1 ? parameter.replaceAll("##\\w+", suffixes.getFirst()) : parameter;
            Matcher m = TYPED.matcher(whole.strip());
            if (!m.find()) {
                return List.of();
            }
            parameters.add(new Parameter(m.group(3), !m.group(2).isEmpty(), width(m.group(1), source, suffixes)));
        }
        return parameters;
    }

    /** T, C and U are what the name's suffixes say; other names in capitals are macros. */
    private static int width(String type, CudaSource source, List<String> suffixes) {
        String known = source.defines().getOrDefault(type, type);
        Optional<Integer> width = Optional.ofNullable(WIDTHS.get(known));
        if (width.isPresent()) {
            return width.get();
        }
        return suffixes.stream()
                .filter(s -> type.equals("C") == (s.equals("e4m3") || s.equals("e5m2")))
                .map(s -> s.matches("\\d+") ? Integer.valueOf(s) : WIDTHS.getOrDefault(s, 0))
                .findFirst()
                .orElse(0);
    }
}
