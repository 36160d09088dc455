"""Options of training: what each may be, and what goes with what. Imports nothing heavy.

``settings`` puts the options of data, features, objective, solver and resources together and checks them;
``option`` says what a declaration is and what options are called elsewhere, ``methods`` what each method takes,
``python`` makes functions take them. Everybody may read Settings; only the command line and ``python``
look at the declarations.
"""
