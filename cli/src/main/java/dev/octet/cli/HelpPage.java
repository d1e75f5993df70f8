package dev.octet.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.commons.cli.Option;

/** The texts behind {@code --help}. */
final class HelpPage {
    private static final int WIDTH = 100;

    private HelpPage() {}

    /** The list of verbs. */
    static String ofAll(List<Command> commands) {
        int column = commands.stream().mapToInt(c -> c.name().length()).max().orElse(0) + 2;
        StringBuilder page = new StringBuilder("usage: octet VERB [options] ARGUMENTS\n\n");
        for (Command command : commands) {
            appendEntry(page, command.name(), column, command.summary());
        }
        return page.append(
                        "\n'octet VERB --help' shows a verb's options and examples, 'octet --version' the version.\n")
                .toString();
    }

    /** Usage, options with their defaults, examples. */
    static String of(Command command) {
        List<Option> options = Flags.of(command);
        List<String> heads = new ArrayList<>();
        options.forEach(o -> heads.add(head(o)));
        int column = Math.min(30, heads.stream().mapToInt(String::length).max().orElse(0) + 2);
        StringBuilder page = new StringBuilder("usage: octet ").append(command.name());
        command.operands().forEach(o -> page.append(' ').append(o));
        page.append(" [options]\n\n").append(command.summary()).append("\n\noptions:\n");
        for (int i = 0; i < options.size(); i++) {
            appendEntry(page, heads.get(i), column, options.get(i).getDescription());
        }
        page.append("\nexamples:\n");
        command.examples().forEach(e -> page.append("  ").append(e).append('\n'));
        return page.toString();
    }

    private static String head(Option option) {
        String name = (option.getOpt() == null ? "" : "-" + option.getOpt() + ", ") + "--" + option.getLongOpt();
        return option.hasArg() ? name + " " + option.getArgName() : name;
    }

    private static void appendEntry(StringBuilder page, String head, int column, String text) {
        String gap = " ".repeat(column + 2);
        page.append(String.format(Locale.ROOT, "  %-" + column + "s", head));
        if (head.length() >= column) {
            page.append('\n').append(gap);
        }
        int used = gap.length();
        for (String word : text.split(" ", -1)) {
            if (used + word.length() > WIDTH) {
                page.append('\n').append(gap);
                used = gap.length();
            }
            page.append(word).append(' ');
            used += word.length() + 1;
        }
        page.setLength(page.length() - 1);
        page.append('\n');
    }
}
