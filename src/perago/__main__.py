"""`python -m perago` is the console script `perago`."""

from perago.app.command_line.main import main

if __name__ == "__main__":
    main()
